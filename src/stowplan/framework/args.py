"""The arguments of a plugin, as the `pluginConfig` of a profile gives them.

A plugin states what it takes as a record, and gets it complete and checked:

    class FreshNodesArgs(PluginArgs, frozen=True):
        max_age_seconds: int = 3600

        def problems(self) -> list[tuple[str, str]]:
            if self.max_age_seconds <= 0:
                return [("maxAgeSeconds", f"{self.max_age_seconds} must be greater than zero")]
            return []

The defaults of the fields are the defaults of the arguments. Field names are camelCase in the file.
"""

from __future__ import annotations

from typing import Self

from stowplan.objects.base import Record


class PluginArgs(Record, frozen=True, forbid_unknown_fields=True):
    """What a plugin can be told in a profile. An unknown field is an error, because it is most often a typo.

    `apiVersion` and `kind` may stand in the file and are checked by the reader of the configuration; records
    do not repeat them.
    """

    def completed(self) -> Self:
        """These args with the defaults that field defaults cannot express: an explicit 0 or an empty
        list that means "the default". Called once, before `problems`."""
        return self

    def problems(self) -> list[tuple[str, str]]:
        """What is wrong with the values: pairs of a path in the args (`shape[0].score`) and a sentence."""
        return []
