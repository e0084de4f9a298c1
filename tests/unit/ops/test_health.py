from __future__ import annotations

from stowplan.ops.health import Check, HealthGroup, HealthMetrics
from stowplan.ops.http import Request, Response


def ask(group: HealthGroup, target: str) -> Response | None:
    return group.answer(Request("GET", target, []))


def body(response: Response | None) -> str:
    assert response is not None
    assert isinstance(response.body, bytes)
    return response.body.decode()


def a_group(problem: str | None = None, metrics: HealthMetrics | None = None) -> HealthGroup:
    checks = (Check("fine", lambda: None), Check("other", lambda: problem))
    return HealthGroup("readyz", checks, metrics or HealthMetrics())


def test_ok_is_all_that_is_said_unless_asked_for_more() -> None:
    assert body(ask(a_group(), "/readyz")) == "ok"
    said = body(ask(a_group(), "/readyz?verbose"))
    assert said == "[+]fine ok\n[+]other ok\nreadyz check passed\n"


def test_a_failure_is_told_without_its_reason() -> None:
    response = ask(a_group("the database password is x"), "/readyz")
    assert response is not None
    assert response.status == 500
    assert body(response) == "[+]fine ok\n[-]other failed: reason withheld\nreadyz check failed\n"


def test_checks_can_be_excluded() -> None:
    response = ask(a_group("broken"), "/readyz?exclude=other&verbose")
    assert body(response) == "[+]fine ok\n[+]other excluded: ok\nreadyz check passed\n"


def test_excluding_what_is_not_there_is_warned_of() -> None:
    said = body(ask(a_group(), "/readyz?verbose&exclude=nope"))
    assert 'warn: some health checks cannot be excluded: no matches for "nope"\n' in said


def test_each_check_has_its_own_path_and_says_why() -> None:
    assert body(ask(a_group(), "/readyz/other")) == "ok"
    response = ask(a_group("broken"), "/readyz/other")
    assert response is not None
    assert response.status == 500
    assert body(response) == "internal server error: broken\n"
    assert ask(a_group(), "/readyz/") is None
    assert ask(a_group(), "/readyz/nope") is None


def test_without_checks_there_is_a_ping() -> None:
    group = HealthGroup("livez", (), HealthMetrics())
    assert body(ask(group, "/livez?verbose")) == "[+]ping ok\nlivez check passed\n"


def test_what_checks_said_is_counted() -> None:
    metrics = HealthMetrics()
    ask(a_group(None, metrics), "/readyz")
    ask(a_group("broken", metrics), "/readyz")
    text = metrics.render().decode()
    assert 'kubernetes_healthcheck{name="other",type="readyz"} 0.0' in text
    assert 'kubernetes_healthchecks_total{name="other",status="success",type="readyz"} 1.0' in text
    assert 'kubernetes_healthchecks_total{name="other",status="error",type="readyz"} 1.0' in text
