"""Reads what Gradescope lays beside its submissions: who handed in together, and when."""

from typing import Any

import yaml

METADATA = "submission_metadata.yml"


def read_metadata(content: bytes) -> dict[str, list[dict[str, str]]]:
    """Who handed in what, by the folders that Gradescope's metadata names.

    Raises:
        ValueError: it is no YAML, or has another form.
    """
    try:
        data = yaml.load(content, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        raise ValueError(f"{METADATA} is no YAML: {str(error)[:100]}") from None
    if not isinstance(data, dict):
        raise ValueError(f"{METADATA} does not list submissions")
    return {str(folder): _submitters(about) for folder, about in data.items()}


def _submitters(about: Any) -> list[dict[str, str]]:
    """Those who handed a submission in, with the names of our groups."""
    people = about.get(":submitters") if isinstance(about, dict) else None
    time = str(about.get(":created_at", "")) if isinstance(about, dict) else ""
    return [
        {
            "student_id": str(person.get(":sid") or ""),
            "name": str(person.get(":name") or ""),
            "email": str(person.get(":email") or ""),
            "timestamp": time,
        }
        for person in (people if isinstance(people, list) else [])
        if isinstance(person, dict)
    ]
