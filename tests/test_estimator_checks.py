"""scikit-learn's own checks of estimators, as far as they fit recordings."""

import pytest

sklearn = pytest.importorskip("sklearn", minversion="1.6", reason="scikit-learn 1.6 is not installed")

from sklearn.utils.estimator_checks import parametrize_with_checks  # noqa: E402

from skiprnn_plugin import SkipRNNClassifier, SkipRNNRegressor  # noqa: E402

WIDTH = "an array [N, T] is N recordings of T samples of one number, so n_features_in_ is 1 and T may differ"
# The checks that can't pass, and why
FAILING = {
    "check_n_features_in": WIDTH,
    "check_n_features_in_after_fitting": WIDTH,
    "check_dtype_object": "objects are refused: they may be texts, or recordings of different lengths",
    "check_estimators_empty_data_messages": "recordings without samples are refused in other words",
}
FAILING_CLASSIFIER = {
    "check_classifiers_train": WIDTH,
    "check_supervised_y_2d": "labels [N, 1] are refused, not converted with a warning",
}
FAILING_REGRESSOR = {
    "check_regressors_train": "it asks for a good score, and these models are trained for two updates",
    "check_fit2d_1sample": "one recording is refused in other words",
}
SHORT = {"hidden_size": 4, "max_updates": 2, "random_state": 0, "progress": False}


def find_failing(estimator):
    return {**FAILING, **(FAILING_CLASSIFIER if isinstance(estimator, SkipRNNClassifier) else FAILING_REGRESSOR)}


@pytest.mark.thorough
@parametrize_with_checks([SkipRNNClassifier(**SHORT), SkipRNNRegressor(**SHORT)], expected_failed_checks=find_failing)
@pytest.mark.filterwarnings("ignore")
def test_check(estimator, check):
    check(estimator)
