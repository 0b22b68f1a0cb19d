"""pi-marathon doctor: what this machine has and what is missing."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

from marathon.cli.checkup import checkup


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="A JSON list of checks.")
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """Check this machine and say what to type where something is wrong; exit 1 if anything necessary is missing."""
    findings = checkup()
    if as_json:
        click.echo(json.dumps([asdict(finding) for finding in findings], indent=2))
    else:
        for finding in findings:
            click.echo(f"{finding.sign} {finding.name}: {finding.found}")
            if finding.cure:
                click.echo(f"   → {finding.cure}")
    ctx.exit(1 if any(finding.level == "bad" for finding in findings) else 0)
