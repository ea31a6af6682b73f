#!/usr/bin/env python3
"""Draws what depends on what, from the sources, as text for Graphviz.

    scripts/graph.py             the targets, by their imports
    scripts/graph.py ApusServer  the folders of a target, by the types that they refer to

Each edge of the second graph is labelled with the number of types. For a picture: scripts/graph.py | dot -Tsvg
"""

import collections
import pathlib
import re
import sys

SOURCES = pathlib.Path(__file__).resolve().parent.parent / "Sources"
DECLARATION = re.compile(r"^(?:[@\w][@\w() ]* )?(?:struct|class|enum|protocol|actor|typealias) (\w+)", re.M)
IMPORT = re.compile(r"^(?:@\w+ )?(?:public |package |internal |private )?import (\w+)", re.M)
NO_CODE = re.compile(r"//[^\n]*|\"\"\".*?\"\"\"|\"(?:\\.|[^\"\\\n])*\"", re.S)


def code_of(path):
    return NO_CODE.sub("", path.read_text())


def targets():
    """Edges between targets, each without a number."""
    names = {folder.name for folder in SOURCES.iterdir() if folder.is_dir()}
    edges = {(path.relative_to(SOURCES).parts[0], module)
             for path in SOURCES.rglob("*.swift") for module in IMPORT.findall(path.read_text())}
    return {edge: None for edge in edges if edge[1] in names}


def folders(target):
    """Edges between the folders of a target, each with the number of types."""
    root = SOURCES / target
    code = {path: code_of(path) for path in sorted(root.rglob("*.swift"))}
    folder = {path: path.relative_to(root).parts[0] if path.parent != root else target for path in code}
    owner = {name: folder[path] for path, text in code.items() for name in DECLARATION.findall(text)}
    types = collections.defaultdict(set)
    for path, text in code.items():
        for word in re.findall(r"\b[A-Z]\w*", text):
            if owner.get(word, folder[path]) != folder[path]:
                types[folder[path], owner[word]].add(word)
    return {edge: len(words) for edge, words in types.items()}


def main():
    edges = folders(sys.argv[1]) if len(sys.argv) > 1 else targets()
    if not edges:
        sys.exit(f"{sys.argv[1]} is not a target with folders. Targets are the folders of Sources.")
    print("digraph {\n  rankdir=BT\n  node [shape=box]")
    for (source, target), number in sorted(edges.items()):
        print(f'  "{source}" -> "{target}"' + (f" [label={number}]" if number else ""))
    print("}")


main()
