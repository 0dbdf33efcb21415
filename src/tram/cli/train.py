"""`tram train`."""

from pathlib import Path
from typing import Annotated

import typer

from tram.cli.console import exit_on_interrupt


def train(
    config: Annotated[Path, typer.Argument(help="YAML file; configs/ has examples with every key explained.")],
    overrides: Annotated[list[str] | None, typer.Argument(help="Override settings, as train.lr=3e-4.")] = None,
) -> None:
    """Run the training stages of a config.

    After an interruption, the same command continues where it stopped.
    """
    from tram.config import Config
    from tram.training.processes import closing_connections, keep_freed_memory
    from tram.training.run import train as run

    settings = Config.load(config, overrides)
    keep_freed_memory()
    with exit_on_interrupt(), closing_connections():
        print(run(settings))
