"""Which of the plugin's architectures go with which of fairseq's tasks."""

import argparse
import sys

from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.tasks import TASK_REGISTRY
from fairseq.tasks.speech_to_text import SpeechToTextTask
from fairseq.tasks.translation import TranslationTask

# How the names of the architectures that go with a task of fairseq's end; the first replaces one that does not
ENDINGS = {SpeechToTextTask: ("_s2t", "_ctc"), TranslationTask: ("_seq2seq",)}
PURPOSES = {
    "": "makes one prediction per sequence or step, for this plugin's tasks and others with an input_size",
    "_seq2seq": "is for tasks with a source and a target in words, such as translation",
    "_s2t": "reads the features of speech and writes words, as in the task speech_to_text",
    "_ctc": "reads the features of speech, as in the task speech_to_text, for the criterion ctc",
}


def explain_misfit(name: str, ending: str, task: type) -> ValueError:
    """The error of an architecture that a task does not go with, which names one that does.

    Args:
        name: the architecture without its ending, as in ``skip_lstm``.
        ending: its ending, as in ``_seq2seq``.
        task: the task's class.
    """
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
    for kind, endings in ENDINGS.items():
        if task is not None and issubclass(task, kind) and ending not in endings:
            if name + endings[0] in ARCH_MODEL_REGISTRY:  # and not one of a user's own
                raise explain_misfit(name, ending, task)
