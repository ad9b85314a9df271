"""JSON repair: an order with several faults against the rules of its form."""

from __future__ import annotations

import datetime
import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from jeeves_reflexion.models.replies import json_value

from .problem import Problem, Requirement, State, broken_in, prompt_of, some_of

FAMILY = "repair"

_CUSTOMERS = ("Okafor", "Lindqvist", "Marchetti", "Duarte", "Novak", "Haddad")
_GOODS = ("lamp", "kettle", "ladder", "rope", "bucket", "saw", "drill", "clock")
_STATUS = ("open", "paid", "shipped")
_CURRENCIES = ("EUR", "USD", "GBP")
_FIELDS = ("customer", "currency", "status", "discount", "due", "express", "items", "total")


@dataclass(frozen=True, slots=True)
class _Order:
    """The right document."""

    customer: str
    currency: str
    status: str
    discount: float
    due: datetime.date
    items: tuple[tuple[str, str, int, int], ...]
    """Id, name, quantity and price of each."""

    @property
    def total(self) -> int:
        return sum(quantity * price for _, _, quantity, price in self.items)

    def document(self, broken: frozenset[str]) -> dict[str, Any]:
        """Return the document, wrong in what is named."""
        items: list[dict[str, Any]] = [
            {"id": key, "name": name, "quantity": quantity, "price": price}
            for key, name, quantity, price in self.items
        ]
        if "quantities" in broken:
            items[0]["quantity"] = str(items[0]["quantity"])
        if "unique_ids" in broken:
            items[-1]["id"] = items[0]["id"]
        document: dict[str, Any] = {
            "customer": self.customer[:-1] if "customer" in broken else self.customer,
            "currency": self.currency,
            "status": f"{self.status.title()}!" if "status" in broken else self.status,
            "discount": round(self.discount * 100) if "discount" in broken else self.discount,
            "due": f"{self.due:%d.%m.%Y}" if "due" in broken else self.due.isoformat(),
            "express": "no" if "express" in broken else False,
            "items": items,
            "total": self.total + 7 if "total" in broken else self.total,
        }
        if "currency" in broken:
            del document["currency"]
        if "fields" in broken:
            document["tmp"] = None
        return document

    def text(self, broken: frozenset[str]) -> str:
        return json.dumps(self.document(broken), indent=2)

    def pool(self) -> list[Requirement]:
        due, total, customer = self.due, self.total, self.customer
        rules: list[tuple[str, str, Callable[[Mapping[str, Any]], bool]]] = [
            ("customer", f"customer is {customer}, as given.", lambda d: d["customer"] == customer),
            (
                "currency",
                f"currency is there, and one of {', '.join(_CURRENCIES)}.",
                lambda d: d["currency"] in _CURRENCIES,
            ),
            ("status", f"status is one of {', '.join(_STATUS)}.", lambda d: d["status"] in _STATUS),
            (
                "discount",
                "discount is a share between 0 and 1, not a percentage.",
                lambda d: _is_number(d["discount"]) and 0 <= d["discount"] <= 1,
            ),
            (
                "due",
                f"due is the date of {due.day} {due:%B} {due.year}, written YYYY-MM-DD.",
                lambda d: d["due"] == due.isoformat(),
            ),
            ("express", "express is true or false.", lambda d: isinstance(d["express"], bool)),
            (
                "quantities",
                "The quantity of each item is a whole number, not a text.",
                lambda d: all(type(item["quantity"]) is int for item in _items(d)),
            ),
            (
                "unique_ids",
                "No two items have the same id.",
                lambda d: len({i["id"] for i in _items(d)}) == len(_items(d)),
            ),
            (
                "total",
                "total is the sum of quantity times price over all items.",
                lambda d: d["total"] == total,
            ),
            ("fields", f"It has no other fields than {', '.join(_FIELDS)}.", lambda d: not {*d} - {*_FIELDS}),
        ]
        return [Requirement(name, description, _Check(rule)) for name, description, rule in rules]


@dataclass(frozen=True, slots=True)
class _Check:
    """A rule for a document; a text that holds none keeps no rule."""

    rule: Callable[[Mapping[str, Any]], bool]

    def __call__(self, text: str) -> bool:
        document = json_value(text)
        if not isinstance(document, dict) or "items" not in document:
            return False
        try:
            return bool(self.rule(document))
        except (KeyError, TypeError, AttributeError):
            return False


def make(name: str, chance: random.Random) -> Problem:
    """Make a document to repair: at first each of its requirements is broken, but for that of the customer."""
    goods = chance.sample(_GOODS, chance.randint(2, 4))
    order = _Order(
        customer=chance.choice(_CUSTOMERS),
        currency=chance.choice(_CURRENCIES),
        status=chance.choice(_STATUS),
        discount=chance.choice((0.05, 0.1, 0.15, 0.2)),
        due=datetime.date(2025, chance.randint(1, 12), chance.randint(13, 28)),
        items=tuple(
            (f"{good[0]}{place}", good, chance.randint(1, 9), chance.randint(2, 90))
            for place, good in enumerate(goods)
        ),
    )
    requirements = some_of(order.pool(), chance)
    opening = (
        "Repair the JSON document below, so that it keeps the requirements; leave what they don't name as it is. "
        "Answer with the repaired document alone."
    )
    given = order.text(frozenset(one.name for one in requirements if one.name != "customer"))

    def write(state: State) -> str:
        return order.text(broken_in(requirements, state))

    return Problem(name, FAMILY, prompt_of(opening, requirements, given), requirements, write)


def _items(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    items = document["items"]
    if not isinstance(items, list) or not items:
        raise TypeError("items is no list with anything in it")
    return items


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
