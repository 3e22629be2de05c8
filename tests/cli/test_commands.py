"""What all commands have in common."""

import pytest

from skiprnn_plugin import __version__
from skiprnn_plugin.cli import plot, predict, prepare, report


@pytest.mark.parametrize("module", [plot, predict, prepare, report], ids=lambda module: module.PROGRAM)
def test_version(capsys, module):
    with pytest.raises(SystemExit) as ended:
        module.main(["--version"])
    assert ended.value.code == 0 and capsys.readouterr().out == f"skiprnn-plugin {__version__}\n"


def test_a_figure_is_said_to_be_written(tiny, capsys, tmp_path):
    for kind, name in (("samples", "samples.svg"), ("curves", "curves.pdf")):
        run = tiny["seed1"].log if kind == "curves" else tiny["seed1"].checkpoint
        assert plot.main([kind, str(run), "--output", str(tmp_path / name)]) == 0
        assert capsys.readouterr().err.splitlines()[-1] == f"wrote {tmp_path / name}"
