"""The order of the package's parts: every import leads to a lower level, and there are no circular imports.

A room is a file or a folder at the top of ``skiprnn_plugin``. Imports within functions count too.
"""

import ast
import sys
from pathlib import Path

import pytest

from .command_line import PLUGIN

# The levels, from the bottom. A part imports only parts of lower levels, none of the same level.
FLOORS = (
    # checks, messages and numbers, which need none of the other parts; the files of the trained models
    {
        "arguments",
        "average_precision",
        "dials",
        "locking",
        "predictions",
        "quiet",
        "reading",
        "version",
        "writing",
        "zoo",
    },
    # Skip RNN as functions of tensors, workarounds for fairseq bugs; parameters of the estimators
    {"ops", "_fairseq", "parameters"},
    # Skip RNN as torch modules; reading prepared data; loading checkpoints; logging metrics; training in a program
    {"modules", "data", "checkpoints", "metrics", "training"},
    # preparation of raw data; trained models for users' programs; checks of what the estimators are given
    {"prepare", "hub", "estimator_inputs"},
    # trained models that split texts as in the preparation
    {"text_hub"},
    # fairseq's classes for training: losses and models, then the tasks, which use both
    {"criterions", "models"},
    # and trained models as files for other programs
    {"tasks", "export"},
    # estimators for users' programs; trained runs, and the commands on them
    {"estimators", "runs"},
    {"cli"},
    # the package itself, which registers models, criterions and tasks with fairseq
    {"__init__", "__main__"},
)
TORCH_ALONE = ("ops", "modules")  # parts that work without fairseq and numpy


def read_imports(package: Path) -> dict:
    """The imports of each module of a package: module name -> set of module names, also of other packages."""
    files = {name_module(file, package): file for file in sorted(package.rglob("*.py"))}
    imports = {}
    for module, file in files.items():
        inside = module if file.name == "__init__.py" else module.rpartition(".")[0]
        imports[module] = set()
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imports[module].update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                parents = inside.split(".")[: inside.count(".") + 2 - node.level] if node.level else []
                source = ".".join([*parents, *filter(None, [node.module])])
                names = {f"{source}.{alias.name}" for alias in node.names}
                # "from package import module" imports the module, "from package import function" the package
                imports[module] |= names & files.keys()
                if names - files.keys():
                    imports[module].add(source)
        imports[module].discard(module)
    return imports


def name_module(file: Path, package: Path) -> str:
    parts = file.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def name_room(module: str) -> str:
    """The part that a module of the package belongs to; that of the package itself is ``__init__``."""
    return [*module.split("."), "__init__"][1]


def find_upward(imports: dict, floors) -> list:
    """Imports between parts that do not lead to a lower level, and parts that no level lists."""
    floor_of = {room: number for number, rooms in enumerate(floors) for room in rooms}
    wrong = sorted(f"{module}: on no floor" for module in imports if name_room(module) not in floor_of)
    for module, imported in sorted(imports.items()):
        for target in sorted(imported & imports.keys()):
            room, other = name_room(module), name_room(target)
            if room != other and floor_of.get(room, 0) <= floor_of.get(other, 0):
                wrong.append(f"{module} imports {target}")
    return wrong


def find_circle(imports: dict) -> list:
    """Modules of the package that form a circle: each imports the next, and the last the first. Empty if none do."""
    done = set()

    def follow(module, path):
        if module in path:
            circle = path[path.index(module) :]
            first = circle.index(min(circle))  # so that a circle is reported the same way from any start
            return circle[first:] + circle[:first]
        if module in done:
            return []
        for target in sorted(imports[module] & imports.keys()):
            circle = follow(target, [*path, module])
            if circle:
                return circle
        done.add(module)
        return []

    return next(filter(None, (follow(module, []) for module in sorted(imports))), [])


def find_foreign(imports: dict, rooms) -> set:
    """Packages outside Python's library that the modules of these parts import, directly or indirectly."""
    waiting, seen, foreign = [module for module in imports if name_room(module) in rooms], set(), set()
    while waiting:
        module = waiting.pop()
        if module in seen:
            continue
        seen.add(module)
        waiting += imports[module] & imports.keys()
        foreign |= {target.split(".")[0] for target in imports[module] - imports.keys()}
    return foreign - sys.stdlib_module_names


@pytest.fixture(scope="module")
def imports():
    return read_imports(PLUGIN)


def test_every_import_leads_to_a_lower_floor(imports):
    assert find_upward(imports, FLOORS) == []


def test_no_modules_import_each_other_in_a_circle(imports):
    assert find_circle(imports) == []


def test_ops_and_modules_need_torch_alone(imports):
    convert = "skiprnn_plugin.modules.convert"  # one function takes numpy arrays, and imports numpy when it is called
    imports = {**imports, convert: imports[convert] - {"numpy"}}
    for module in imports:  # the engine imports its kernels, and so triton, when it runs
        if module.startswith("skiprnn_plugin.ops.triton.") and not module.endswith((".engine", ".call")):
            imports[module] = imports[module] - {"triton", "triton.language"}
    assert find_foreign(imports, TORCH_ALONE) == {"torch"}


def test_every_room_exists(imports):
    assert set().union(*FLOORS) == {name_room(module) for module in imports}


MADE_UP = {
    "__init__.py": "def register():\n    from . import roof",
    "ground.py": "import math, numpy.linalg",
    "middle/__init__.py": "from .a import f",
    "middle/a.py": "from ..ground import g\nfrom .b.c import h\nimport torch",
    "middle/b/__init__.py": "",
    "middle/b/c.py": "import made_up.ground",
    "roof.py": "from . import middle, ground\nfrom made_up.middle.a import f",
}
ROOMS = ({"ground"}, {"middle"}, {"roof"}, {"__init__"})


@pytest.mark.parametrize(
    "changed, upward, circle",
    [
        ({}, [], []),
        (
            {"ground.py": "def late():\n    from .middle import b"},
            ["made_up.ground imports made_up.middle.b"],
            [],
        ),
        (
            {"middle/b/c.py": "from ... import roof"},
            ["made_up.middle.b.c imports made_up.roof"],
            ["made_up.middle", "made_up.middle.a", "made_up.middle.b.c", "made_up.roof"],
        ),
        ({"middle/b/c.py": "from ..a import f"}, [], ["made_up.middle.a", "made_up.middle.b.c"]),
        ({"attic.py": ""}, ["made_up.attic: on no floor"], []),
    ],
    ids=["none", "within a function", "upward", "circle in a room", "no floor"],
)
def test_wrong_imports_are_found(tmp_path, changed, upward, circle):
    for path, text in {**MADE_UP, **changed}.items():
        file = tmp_path / "made_up" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    imports = read_imports(tmp_path / "made_up")
    assert find_upward(imports, ROOMS) == upward
    assert find_circle(imports) == circle
    if not changed:
        assert find_foreign(imports, ["middle"]) == {"torch", "numpy"}
        assert find_foreign(imports, ["ground"]) == {"numpy"}
