"""Metadata of Iceberg whose writers are not trusted.

pyiceberg takes the properties of a table over those of the catalogue as it opens files. They may
name a class of Python to import, or another host, to which the reader's credentials are sent. As in
Iceberg for Java, files are opened with the catalogue's properties alone.
"""

from __future__ import annotations

import os
from typing import Any

from bsjoin.sources.drivers import driver

_NAME_MAPPING = "schema.name-mapping.default"  # all that a reader needs
_MOST_NEWER = 10_000
_ENDINGS = ".metadata.json", ".gz.metadata.json"


def distrust_tables_of(catalog: Any) -> None:
    """Let a catalogue of pyiceberg open files without the properties of its tables."""
    if hasattr(catalog, "_response_to_table"):  # REST: the server's settings are kept
        respond = catalog._response_to_table
        catalog._response_to_table = lambda name, response: respond(name, _harmless(response))
    else:
        load = catalog._load_file_io
        catalog._load_file_io = lambda properties=None, location=None: load({}, location)


def _harmless(response: Any) -> Any:
    metadata = response.metadata
    kept = {key: text for key, text in metadata.properties.items() if key == _NAME_MAPPING}
    return response.model_copy(
        update={"metadata": metadata.model_copy(update={"properties": kept})}
    )


def static_table(place: str) -> Any:
    """The table of a metadata file, or of a folder: the newest one that its hint leads to."""
    load_file_io = driver("pyiceberg.io", "iceberg").load_file_io
    serializers = driver("pyiceberg.serializers", "iceberg")
    noop = driver("pyiceberg.catalog.noop", "iceberg")
    if not place.endswith(".metadata.json"):
        place = _newest(load_file_io, place)
    io = load_file_io({}, place)
    return driver("pyiceberg.table", "iceberg").StaticTable(
        identifier=("static-table", place),
        metadata=serializers.FromInputFile.table_metadata(io.new_input(place)),
        metadata_location=place,
        io=io,
        catalog=noop.NoopCatalog("static-table"),
    )


def _newest(load_file_io: Any, folder: str) -> str:
    hint = os.path.join(folder, "metadata", "version-hint.text")
    io = load_file_io({}, hint)
    with io.new_input(hint).open() as stream:
        text = stream.read().decode("utf-8").strip()
    if text.endswith(".metadata.json"):
        return os.path.join(folder, "metadata", text)
    if not (text.isascii() and text.isdigit()):
        return os.path.join(folder, "metadata", f"{text}.metadata.json")
    found = os.path.join(folder, "metadata", f"v{text}{_ENDINGS[0]}")
    # A writer may have stopped before it wrote the hint, whose own file may be removed by then.
    for number in range(int(text), int(text) + _MOST_NEWER):
        places = [os.path.join(folder, "metadata", f"v{number}{ending}") for ending in _ENDINGS]
        newer = next((place for place in places if io.new_input(place).exists()), None)
        if newer is None and number > int(text):
            break
        found = newer or found
    return found
