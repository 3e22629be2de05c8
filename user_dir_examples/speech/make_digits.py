"""Makes a corpus of spoken digits for fairseq's task speech_to_text: python make_digits.py FOLDER [UTTERANCES].

The speech is made up: 100 frames a second of 80 log-energies. Vowels are three formants, which differ from speaker to
speaker, other sounds are noise in a band. A sound lasts 50 to 120 ms, as in speech, and a pause up to 240 ms. An
utterance is 1 to 4 digits.

With --espeak the digits are spoken by the program espeak-ng, in 60 voices, with random speeds, pitches and pauses, and
a little noise. This needs espeak-ng (on Debian: apt-get install espeak-ng) and pip install kaldi-native-fbank.
"""

import argparse
import csv
import io
import shutil
import subprocess
import wave
from importlib.util import find_spec
from pathlib import Path

import numpy as np

BANDS = np.arange(80)
# The bands of the formants of a vowel or a similar sound; the band of the noise of another sound
FORMANTS = {
    "iy": (8, 52, 60), "ih": (12, 46, 57), "eh": (17, 43, 56), "ey": (14, 48, 58), "ah": (20, 32, 55),
    "ao": (18, 26, 54), "ow": (15, 24, 54), "ay": (22, 38, 56), "uw": (9, 25, 53), "w": (9, 19, 52),
    "r": (13, 30, 40), "n": (7, 34, 55), "v": (8, 28, 50),
}  # fmt: skip
NOISES = {"s": (62, 79), "z": (58, 76), "f": (40, 78), "th": (45, 70), "k": (34, 50), "t": (52, 72)}
DIGITS = {
    "zero": "z iy r ow", "one": "w ah n", "two": "t uw", "three": "th r iy", "four": "f ao r", "five": "f ay v",
    "six": "s ih k s", "seven": "s eh v ah n", "eight": "ey t", "nine": "n ay n",
}  # fmt: skip
# Accents of English and kinds of voices of espeak-ng
ACCENTS = ("en-us", "en-gb", "en-gb-scotland", "en-gb-x-rp", "en-gb-x-gbclan")
VOICES = ("m1", "m2", "m3", "m4", "m5", "m6", "m7", "f1", "f2", "f3", "f4", "f5")


def make_sound(sound, speaker):
    """The log-energies of a sound above the background, [80]."""
    if sound in FORMANTS:
        peaks = [3 * np.exp(-(((BANDS - speaker * band) / 3) ** 2)) for band in FORMANTS[sound]]
        return np.max(peaks, axis=0)
    low, high = NOISES[sound]
    return np.where((BANDS >= low) & (BANDS <= high), 1.5, 0.0)


def make_utterance(words, rng):
    """The frames of an utterance, float16 [frames, 80]."""
    speaker, pause = rng.uniform(0.92, 1.08), np.zeros(80)
    frames = [pause] * rng.integers(5, 25)
    for word in words:
        for sound in DIGITS[word].split():
            frames += [make_sound(sound, speaker)] * rng.integers(5, 13)
        frames += [pause] * rng.integers(5, 25)
    # Sounds go over into one another
    frames = np.stack([np.convolve(band, [0.25, 0.5, 0.25], "same") for band in np.transpose(frames)], axis=1)
    return (rng.uniform(0.8, 1.2) * frames + rng.normal(0, 0.4, frames.shape)).astype(np.float16)


def speak_utterance(words, rng):
    """The frames of an utterance that espeak-ng speaks, float32 [frames, 80]: their squares add up to more than float16
    holds, in which fairseq's utterance_cmvn would compute."""
    import kaldi_native_fbank

    command = ["espeak-ng", "--stdout", "-v", f"{rng.choice(ACCENTS)}+{rng.choice(VOICES)}"]
    command += ["-s", str(rng.integers(120, 200)), "-p", str(rng.integers(30, 70)), "-g", str(rng.integers(0, 15))]
    spoken = subprocess.run([*command, " ".join(words)], stdout=subprocess.PIPE, check=True).stdout
    with wave.open(io.BytesIO(spoken)) as file:
        rate = file.getframerate()
        samples = np.frombuffer(file.readframes(2**30), np.int16).astype(np.float32)
    options = kaldi_native_fbank.FbankOptions()
    options.frame_opts.samp_freq, options.frame_opts.dither = rate, 0
    options.mel_opts.num_bins = 80
    bank = kaldi_native_fbank.OnlineFbank(options)
    bank.accept_waveform(rate, (samples + rng.normal(0, 30, len(samples))).tolist())
    bank.input_finished()
    return np.stack([bank.get_frame(frame) for frame in range(bank.num_frames_ready)])


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("folder", type=Path, help="folder for the corpus, which is made")
parser.add_argument("utterances", type=int, nargs="?", default=6000, help="to train on (default: 6000)")
parser.add_argument("--espeak", action="store_true", help="let espeak-ng speak the digits")
args = parser.parse_intermixed_args()
if args.utterances < 20:
    parser.error(f"utterances: expected at least 20, got {args.utterances}")
if args.espeak:
    needed = {"espeak-ng": shutil.which("espeak-ng"), "kaldi-native-fbank": find_spec("kaldi_native_fbank")}
    missing = [name for name, found in needed.items() if not found]
    if missing:
        parser.error(f"--espeak: expected {' and '.join(needed)}, got no {' and no '.join(missing)}")
folder, make = args.folder.resolve(), speak_utterance if args.espeak else make_utterance
partial = folder.with_name(folder.name + ".partial")  # renamed when everything is written
shutil.rmtree(partial, ignore_errors=True)
rng = np.random.default_rng(1)
for split, count in (("train", args.utterances), ("valid", args.utterances // 20), ("test", args.utterances // 20)):
    (partial / split).mkdir(parents=True)
    with open(partial / f"{split}.tsv", "w", newline="") as file:
        manifest = csv.writer(file, delimiter="\t", lineterminator="\n")
        manifest.writerow(["id", "audio", "n_frames", "tgt_text", "speaker"])
        for index in range(count):
            words = rng.choice(list(DIGITS), rng.integers(1, 5))
            frames = make(words, rng)
            np.save(partial / split / f"{index}.npy", frames)
            manifest.writerow([f"{split}-{index}", f"{split}/{index}.npy", len(frames), " ".join(words), "made-up"])
(partial / "dict.txt").write_text("".join(f"{word} 1\n" for word in DIGITS))
(partial / "config.yaml").write_text(
    f"audio_root: {folder}\nvocab_filename: dict.txt\ninput_feat_per_channel: 80\n"
    "bpe_tokenizer: {bpe: null}\ntransforms: {'*': [utterance_cmvn]}\n"
)
partial.rename(folder)
