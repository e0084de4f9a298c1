import pytest

from stowplan.objects.names import label_key_problem, label_value_problem


@pytest.mark.parametrize("key", ["a", "a.b_c-d", "example.com/A", "x" * 63, "a.b/" + "x" * 63])
def test_label_keys_that_are_right(key: str) -> None:
    assert label_key_problem(key) == ""


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        ("", "name part must be non-empty; name part must consist of"),
        ("-a", "name part must consist of"),
        ("x" * 64, "name part must be no more than 63 bytes"),
        ("/a", "prefix part must be non-empty"),
        ("A.com/a", "prefix part a lowercase RFC 1123 subdomain must consist of"),
        (f"{'a' * 254}/a", "prefix part must be no more than 253 bytes"),
        ("a/b/c", "a valid label key must consist of"),
    ],
)
def test_label_keys_that_are_wrong(key: str, problem: str) -> None:
    assert label_key_problem(key).startswith(problem)


def test_label_values() -> None:
    assert label_value_problem("") == label_value_problem("v1.0_a-b") == label_value_problem("x" * 63) == ""
    assert label_value_problem("x" * 64) == "must be no more than 63 bytes"
    assert label_value_problem("no spaces").startswith("a valid label must be an empty string or consist of")
    assert label_value_problem("newline\n") != ""
