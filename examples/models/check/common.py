"""What the checks share."""

import os
import pathlib

FOLDER = pathlib.Path(__file__).resolve().parent.parent


def model(file):
    """A file of a fetched package (tools/fetch.py)."""
    given = os.environ.get("SERINETTE_MODELS")
    folder = pathlib.Path(given) if given else pathlib.Path.home() / ".cache" / "serinette" / "models"
    return folder / file
