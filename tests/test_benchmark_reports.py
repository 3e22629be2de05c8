"""Reports of benchmarks: the summary, comparisons with the machine's limits, and merged reports."""

import json
import sys

import pytest

from benchmarks import limits, report
from benchmarks.merge import merge
from benchmarks.shapes import SHAPES
from benchmarks.summary import as_tables, summarize

from .command_line import ROOT, run


def entry(shape="mnist-b1", cell="gru", mode="inference", fraction=1.0, threads=1, contestant="native", us=1.0, **more):
    """A measurement of this many microseconds per step; ``peer`` says how many the fastest peer took."""
    peer = more.pop("peer", None)
    return {
        **{"shape": shape, "cell": cell, "dtype": "float32", "fraction": fraction, "mode": mode, "threads": threads},
        **SHAPES[shape]._asdict(),
        **{"contestant": contestant, "kind": "engine", "fault": None, "us_per_step_median": us, "us_per_step_min": us},
        **{"ratio": peer and us / peer, "peak_memory": None, "fraction_ran": fraction},
        **more,
    }


def whole(measurements, **more):
    """A report with these measurements."""
    heading = {"suite": "cpu", "date": "2026-01-01", "commit": None, "machine": {"processor": "P", "cores": 2}}
    heading |= {"versions": {"torch": "2.0"}, "options": {}, "seconds_in_all": 1.0, "left_out": []}
    heading["machine"]["device"] = None
    return {**heading, "limits": {"products": [], "streams": []}, "measurements": measurements, **more}


def test_summary_hides_no_case():
    summary = summarize(
        [
            entry("mnist-b1", us=1, peer=3),
            entry("mnist-b1", threads=2, us=1, peer=0.75),
            entry("adding-b1", us=2, peer=24),
            entry("adding-b16", us=1, peer=8),
            entry("mnist-b256", us=1, peer=2),
            entry("mnist-b16", cell="lstm", us=1, peer=5),
            entry("mnist-b256", cell="lstm", us=None, fault="output: off"),
            entry("mnist-b1", cell="gru_reset_before", us=1, peer=0.1),
            entry("mnist-b1", contestant="indexed", us=1, peer=0.1),
            entry("mnist-b16", fraction="mixed", us=1, peer=0.1),
            entry("mnist-b1", fraction=0.2, us=1),
            entry("imdb-b1", mode="training", fraction=0.5, us=1, peer=2),
            entry("imdb-b32", "lstm", "training", 0.5, us=1, peer=0.5),
        ]
    )
    found = {(row["cell"], row["batch"], row["mode"], row["fraction"]): row for row in summary}
    assert len(found) == len(summary) == 4
    single = found["gru", "1", "inference", 1.0]
    assert (single["cases"], single["smallest"]) == (3, pytest.approx(0.75))
    assert single["smallest_at"] == "mnist-b1, gru, threads: 2"
    assert single["geometric_mean"] == pytest.approx((3 * 0.75 * 12) ** (1 / 3))
    assert found["lstm", ">= 16", "inference", 1.0]["wrong"] == 1
    assert found[None, None, "training", 0.5]["families"] == ("imdb",)
    assert as_tables(summary) == [
        "| adding and mnist | GRU, batch 1 | GRU, batch >= 16 | LSTM, batch 1 | LSTM, batch >= 16 |",
        "| --- | --- | --- | --- | --- |",
        "| inference, 100% | 0.75 (3.00) | 2.00 (4.00) | - | wrong |",
        "",
        "|  | training, 50% |",
        "| --- | --- |",
        "| imdb | 0.50 (1.00) |",
    ]


def test_shares_of_limits():
    measured = {
        "products": [
            {"threads": 1, "by": "torch.mm", "gflops": 50.0},
            {"threads": 1, "by": "oneDNN", "gflops": 100.0},
            {"threads": 2, "by": "torch.mm", "gflops": 200.0},
        ],
        "streams": [{"bytes": 4 * 3 * 110 * 110, "gb_per_second": 145.2}],
    }
    large = [entry("mnist-b256", us=1000, threads=1), entry("mnist-b256", us=1000, threads=2)]
    single, other_size = entry("mnist-b1", us=3), entry("mnist-b1", cell="lstm", us=3)
    neither = [
        entry("mnist-b16"),
        entry("mnist-b256", mode="training"),
        entry("mnist-b256", fraction=0.5),
        entry("mnist-b256", us=None, fault="output: off"),
        entry("mnist-b256", dtype="bfloat16"),
    ]
    limits.fill([*large, single, other_size, *neither], measured)
    flops = 2 * 256 * 3 * 110 * 110  # in 1 ms
    assert [entry["share_of_peak"] for entry in large] == pytest.approx([flops / 1e-3 / 1e11, flops / 1e-3 / 2e11])
    assert single["times_streaming"] == pytest.approx(3.0)  # 1 us to read
    assert single["share_of_peak"] is None and large[0]["times_streaming"] is None
    assert all(entry[name] is None for entry in [other_size, *neither] for name in ("share_of_peak", "times_streaming"))
    text = report.write(whole([*large, single], limits=measured), None)
    assert "torch.mm 50 (threads: 1), oneDNN 100 (threads: 1), torch.mm 200 (threads: 2)" in text
    assert "145 kB at 145" in text and "| 3.00 |" in text


def test_limits_are_measured():
    measured = limits.measure([1], ["adding-b1", "mnist-b1", "mnist-b256"], ["gru", "lstm"], 0.01)
    assert {entry["by"] for entry in measured["products"]} == set(limits.PRODUCTS)
    assert [entry["bytes"] for entry in measured["streams"]] == [4 * gates * 110 * 110 for gates in (3, 4)]
    # any machine is within these bounds, unless the unit is wrong
    assert all(0.1 < entry["gflops"] < 1e5 for entry in measured["products"]), measured
    assert all(0.1 < entry["gb_per_second"] < 1e4 for entry in measured["streams"]), measured


def test_merge():
    over = "mnist-b1 gru 0.2 float32: the time was over"
    early = whole(
        [entry(us=1, peer=2), entry(contestant="torch", us=2, kind="peer", ratio=1.0)],
        limits={"products": [{"threads": 1, "by": "torch.mm", "gflops": 50.0}], "streams": []},
        left_out=["a reason", over, over.replace("b1", "b16")],
    )
    late = whole([entry(us=3, peer=12), entry(fraction=0.2, us=1, peer=4)], date="2026-01-02", commit="c")
    del late["limits"]  # as in older reports
    merged = merge([merge([early]), late])
    again, other, fifth = merged["measurements"]
    assert (again["us_per_step_median"], again["ratio"]) == (3, 0.25)  # the last report's
    assert (other["contestant"], other["us_per_step_median"], fifth["fraction"]) == ("torch", 2, 0.2)
    assert (merged["date"], merged["commit"]) == ("2026-01-01, 2026-01-02", "unknown, c")
    assert merged["left_out"] == ["a reason", over.replace("b1", "b16")]
    assert [part["date"] for part in merged["parts"]] == ["2026-01-01", "2026-01-02"]
    assert merged["limits"]["products"] == early["limits"]["products"] and merged["seconds_in_all"] == 2
    assert "| mnist-b1 | gru | 100.0% | 3.00 (3.00) x0.25 | 2.00 (2.00) x1.00 |" in report.write(merged, None)


def test_merging_command(tmp_path, capsys):
    files = [tmp_path / f"{name}.json" for name in ("a", "b", "all")]
    for file, fraction in zip(files, (1.0, 0.2)):
        file.write_text(report.as_json(whole([entry(fraction=fraction, us=1, peer=2)])))
    assert report.main([*map(str, files[:2]), "--output", str(files[2])]) == 0
    merged = json.loads(files[2].read_text())
    assert [entry["fraction"] for entry in merged["measurements"]] == [1.0, 0.2]
    assert [row["smallest"] for row in merged["summary"]] == [2, 2]
    assert capsys.readouterr().out == files[2].with_suffix(".md").read_text()


def test_bad_reports_are_one_error(tmp_path, capsys):
    names = ("one", "moved", "updated", "none", "text")
    one, moved, updated, none, text = files = [str(tmp_path / f"{name}.json") for name in names]
    reports = [whole([]), whole([], machine={"processor": "P", "cores": 4}), whole([], versions={"torch": "2.1"}), {}]
    for file, content in zip(files, [*map(json.dumps, reports), "text"]):
        with open(file, "w") as stream:
            stream.write(content)
    for arguments, parts in {
        (one, moved): ("one machine", "cores 2 and 4"),
        (one, updated): ("same packages", "torch '2.0' and '2.1'"),
        (one, none): ("none.json is not one",),
        (one, text): ("text.json",),
        (one, one + ".no"): ("one.json.no", "No such file"),
        (one, "--output", "x.txt"): ("--output", "x.txt"),
    }.items():
        with pytest.raises(SystemExit) as stop:
            report.main(arguments)
        *_, line = capsys.readouterr().err.splitlines()
        assert stop.value.code == 2 and all(part in line for part in parts), line


def test_reports_are_utf_8_in_any_locale(tmp_path):
    """Edited by hand, for instance."""
    (tmp_path / "a.json").write_text(json.dumps(whole([entry()], commit="é"), ensure_ascii=False), encoding="utf-8")
    locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "utf-8"}
    process = run(sys.executable, "-m", "benchmarks.report", tmp_path / "a.json", cwd=ROOT, **locale)
    assert process.returncode == 0, process.stderr
