"""What a user may tune about tenants' budgets."""

from __future__ import annotations

import dataclasses

from smgproxy.admission.budget_rules import TenantRules
from smgproxy.core.options import flag

_GROUP = "Tenant Rate Limit"


@dataclasses.dataclass(frozen=True)
class BudgetOptions:
    """Whether tenants have budgets, and which."""

    tenant_rate_limit_enabled: bool = flag(
        False,
        "--tenant-rate-limit-enabled",
        _GROUP,
        "give each tenant a budget of tokens and requests a minute",
    )
    tenant_rate_limit_config: str | None = flag(
        None,
        "--tenant-rate-limit-config",
        _GROUP,
        "YAML file of the budgets, read with --tenant-rate-limit-enabled",
        metavar="FILE",
    )

    def rules(self) -> TenantRules | None:
        """The rules of the file, None when there are no budgets. Raises ValueError."""
        if not self.tenant_rate_limit_enabled:
            return None
        path = self.tenant_rate_limit_config
        if path is None:
            raise ValueError(
                "--tenant-rate-limit-enabled: is set but --tenant-rate-limit-config "
                "is not; name the file of the budgets"
            )
        # Needed with the flag only, and a YAML parser takes milliseconds to load.
        from smgproxy.admission.budget_file import read_rules

        try:
            return read_rules(path)
        except ValueError as fault:
            raise ValueError(f"--tenant-rate-limit-config: {fault}") from fault
