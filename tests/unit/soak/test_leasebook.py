"""Who may bind, and who is caught doing it without the lease."""

from __future__ import annotations

from tests.soak.leasebook import LeaseBook


def test_whoever_renews_may_bind_for_as_long_as_the_lease_lasts() -> None:
    book = LeaseBook(6.0)
    book.renewed("a", sent=0.0)
    book.bound("a", "web", 5.9)
    book.renewed("a", sent=5.0)
    book.bound("a", "web", 10.9)
    assert (book.violations, book.bindings, book.takeovers, book.holder) == ([], 2, 1, "a")


def test_a_lease_runs_out() -> None:
    book = LeaseBook(6.0)
    book.renewed("a", sent=0.0)
    book.bound("a", "web", 7.5)
    assert book.violations == ["a bound web 1.5 s after it had the lease for the last time"]


def test_nobody_binds_before_having_had_the_lease() -> None:
    book = LeaseBook(6.0)
    book.renewed("a", sent=0.0)
    book.bound("b", "web", 1.0)
    assert book.violations == ["b bound web without ever having had the lease"]


def test_a_takeover_ends_what_the_one_before_may_do() -> None:
    book = LeaseBook(6.0)
    book.renewed("a", sent=0.0)
    book.renewed("b", sent=2.0)
    book.bound("a", "late", 2.2)
    book.bound("a", "too-late", 3.0)
    book.bound("b", "web", 3.0)
    assert book.violations == ["a bound too-late 1.0 s after it had the lease for the last time, b has it"]


def test_a_lease_that_was_given_back_is_gone() -> None:
    book = LeaseBook(6.0)
    book.renewed("a", sent=0.0)
    book.released("a", sent=1.0)
    book.bound("a", "web", 2.0)
    assert len(book.violations) == 1
    assert book.holder == ""


def test_the_lease_of_a_killed_process_is_not_that_of_the_next() -> None:
    book = LeaseBook(6.0)
    book.renewed("a", sent=0.0)
    book.started("a")
    book.bound("a", "web", 1.0)
    assert book.violations == ["a bound web without ever having had the lease"]


def test_who_is_robbed_gets_until_the_next_renewal_to_notice() -> None:
    book = LeaseBook(6.0)
    book.renewed("a", sent=0.0)
    book.stolen(1.0, grace=2.0)
    book.bound("a", "web", 2.9)
    assert not book.violations
    book.bound("a", "web", 4.0)
    assert len(book.violations) == 1
