"""Every rule, by what it watches; the order is that in which findings are made."""

from typing import Final

from gpuherd_agent.rules.catalog import heat, host, kernel, links, memory, presence, setup
from gpuherd_agent.rules.rule import Rule

RULES: Final[tuple[Rule, ...]] = (
    *presence.RULES,
    *memory.RULES,
    *heat.RULES,
    *links.RULES,
    *setup.RULES,
    *kernel.RULES,
    *host.RULES,
)
