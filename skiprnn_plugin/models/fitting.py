"""Which of the plugin's architectures go with which of fairseq's tasks."""

import argparse
import sys
from typing import Optional, Tuple

from fairseq.data import Dictionary
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.tasks import TASK_REGISTRY
from fairseq.tasks.sentence_prediction import SentencePredictionTask
from fairseq.tasks.speech_to_text import SpeechToTextTask
from fairseq.tasks.translation import TranslationTask
from fairseq.tasks.translation_multi_simple_epoch import TranslationMultiSimpleEpochTask

from .recurrence import RecurrenceConfig, name_architecture

# How the names of the architectures that go with a task of fairseq's end; the first replaces one that does not
ENDINGS = {
    SentencePredictionTask: ("_text",),
    SpeechToTextTask: ("_s2t", "_ctc"),
    TranslationTask: ("_seq2seq",),
    TranslationMultiSimpleEpochTask: ("_seq2seq",),
}
PURPOSES = {
    "": "makes one prediction per sequence or step, for this plugin's tasks and others with an input_size",
    "_seq2seq": "is for tasks with a source and a target in words, such as translation",
    "_s2t": "reads the features of speech and writes words, as in the task speech_to_text",
    "_ctc": "reads the features of speech, as in the task speech_to_text, for the criterion ctc",
    "_text": "reads a text and predicts its class, as in the task sentence_prediction",
}

_NEXT = "it predicts each token from those before it, and a token that was skipped cannot be seen"
_HIDDEN = "it restores what was hidden from the output at that place, and a skipped step has no output of its own"
_COPIED = "its target holds the words of the source, none of which can be skipped"
_RAW_AUDIO = "it fine-tunes a transformer that was pretrained on raw audio; the task speech_to_text reads filterbanks"
_SPOKEN = "every step of its source is spoken, so that none can be skipped, and its output is frames of sound"
_AS_IT_COMES = "it writes while the source comes in and decides after each step to wait, which needs an output for each"
_MANY_MODELS = "it trains a model for each pair of languages at once"

# Why none of the architectures goes with a task of fairseq's, by the name of the task
REASONS = {
    "language_modeling": _NEXT,
    "multilingual_language_modeling": _NEXT,
    "speech_dlm_task": _NEXT,
    "speech_unit_modeling": _NEXT,
    "masked_lm": _HIDDEN,
    "legacy_masked_lm": _HIDDEN,
    "multilingual_masked_lm": _HIDDEN,
    "cross_lingual_lm": _HIDDEN,
    "audio_pretraining": _HIDDEN,
    "hubert_pretraining": _HIDDEN,
    "multires_hubert_pretraining": _HIDDEN,
    "denoising": _COPIED,
    "multilingual_denoising": _COPIED,
    "span_masked_lm": _COPIED,
    "audio_finetuning": _RAW_AUDIO,
    "audio_classification": _RAW_AUDIO,
    "nlu_finetuning": _RAW_AUDIO,
    "text_to_speech": _SPOKEN,
    "frm_text_to_speech": _SPOKEN,
    "speech_to_speech": _SPOKEN,
    "simul_speech_to_text": _AS_IT_COMES,
    "simul_text_to_text": _AS_IT_COMES,
    "multilingual_translation": _MANY_MODELS,
    "semisupervised_translation": _MANY_MODELS,
    "online_backtranslation": "it adds words to a transformer's output layer, which the decoder here does not have",
    "translation_lev": "it edits the whole target at once, and the decoder here writes from left to right",
    "sentence_prediction_adapters": "it trains adapters in the layers of a transformer",
    "sentence_ranking": "it takes only a criterion of its own, to which no budget can be added",
}


def find_reason(task: type) -> Optional[str]:
    """Why none of the architectures goes with a task's class; None if one may."""
    names = {kind: name for name, kind in TASK_REGISTRY.items()}
    nearest = next((kind for kind in task.__mro__ if kind in ENDINGS or names.get(kind) in REASONS), None)
    return None if nearest is None or nearest in ENDINGS else REASONS[names[nearest]]


def find_dictionaries(task) -> Tuple[Optional[Dictionary], Optional[Dictionary]]:
    """The dictionaries of a task's source and target, each None if it has none."""
    found = []
    for name in ("source_dictionary", "target_dictionary"):
        try:
            found.append(getattr(task, name, None))
        except NotImplementedError:
            found.append(None)
    return found[0], found[1]


def explain_misfit(name: str, ending: str, task: type) -> ValueError:
    """The error of an architecture that a task does not go with, which names one that does.

    Args:
        name: the architecture without its ending, as in ``skip_lstm``.
        ending: its ending, as in ``_seq2seq``.
        task: the task's class.
    """
    reason = find_reason(task)
    if reason is not None:
        return ValueError(
            f"--task: expected one that a Skip RNN goes with, got {task.__name__} for {name}{ending}: {reason}"
        )
    endings = next((endings for kind, endings in ENDINGS.items() if issubclass(task, kind)), None)
    if endings is not None:
        fitting = name + endings[0]
    elif ending:
        fitting = f"an architecture that goes with {task.__name__}, such as {name}"
    else:
        fitting = "one that goes with the task"
    return ValueError(
        f"--arch: expected {fitting}, got {name}{ending}, which does not go with {task.__name__}: it {PURPOSES[ending]}"
    )


def refuse_task(name: str, ending: str, task: type) -> None:
    """Raise ValueError if a task is known not to go with an architecture. The arguments are those of
    :func:`explain_misfit`."""
    known = next((endings for kind, endings in ENDINGS.items() if issubclass(task, kind)), (ending,))
    if ending not in known or find_reason(task) is not None:
        raise explain_misfit(name, ending, task)


def refuse_misfit(ending: str) -> None:
    """Raise ValueError if the command line asks for an architecture with this ending in a task of fairseq's that it
    does not go with.

    Said while fairseq reads the command line: it would first refuse the options of the model that the architecture
    probably replaces, and some of its tasks fail with a model of another kind before they build it.
    """
    finder = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    finder.add_argument("--arch", "-a", default="")
    finder.add_argument("--task", default="translation")  # as fairseq's
    given = finder.parse_known_args(sys.argv[1:])[0]
    name, task = given.arch.removesuffix(ending), TASK_REGISTRY.get(given.task)
    if task is not None and f"{name}_seq2seq" in ARCH_MODEL_REGISTRY:  # and not one of a user's own
        refuse_task(name, ending, task)


class FitsTasks:
    """A mixin for models, which must precede fairseq's class in the list of bases: errors for tasks that the model's
    architectures do not go with.

    Attributes:
        ending: how the names of the architectures end.
    """

    ending = ""

    @classmethod
    def add_args(cls, parser):
        """Add the options to a parser. Raises ValueError for a command line of a task that does not go with them."""
        super().add_args(parser)
        refuse_misfit(cls.ending)

    @classmethod
    def explain_misfit(cls, cfg: RecurrenceConfig, task) -> ValueError:
        """As the function of this name, for a model's options and a task."""
        return explain_misfit(name_architecture(cfg), cls.ending, type(task))
