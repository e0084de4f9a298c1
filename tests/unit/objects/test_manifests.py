import pytest

from stowplan.objects import ObjectError
from stowplan.objects.manifests import load_documents


def test_times_stay_text_and_keys_become_text() -> None:
    [document] = load_documents("at: 2024-05-01T10:00:00Z\nlabels: {1: a, true: b}")
    assert document == {"at": "2024-05-01T10:00:00Z", "labels": {"1": "a", "true": "b"}}


def test_merge_keys_may_be_overridden() -> None:
    [document] = load_documents("base: &b {x: 1, y: 2}\nmore: {<<: *b, y: 3}")
    assert document["more"] == {"x": 1, "y": 3}


def test_empty_documents_are_skipped() -> None:
    assert list(load_documents("---\n---\n{a: 1}\n---\n")) == [{"a": 1}]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\na: 2", 'YAML: line 2: key "a" is given twice'),
        ("a: 1\nb: {c: [", "YAML: line 3: "),
        ("- 1", "YAML: a document is list, not an object"),
        ("a: \x00", "YAML: "),
        ("a: !!python/object:os.system {}", "YAML: line 1: "),
        ("? {a: 1}\n: b", "YAML: "),
    ],
)
def test_mistakes_name_the_line(text: str, message: str) -> None:
    with pytest.raises(ObjectError) as error:
        list(load_documents(text))
    assert str(error.value).startswith(message)
