"""The command `ssd`."""

import typer

from ssd.cli import (
    advise,
    bench,
    bench_oracle,
    chaos,
    chat,
    config,
    demo,
    doctor,
    down,
    drain,
    dump,
    generate,
    health,
    measure,
    place,
    serve,
    simulate,
    status,
    top,
    trace,
)
from ssd.cli.plain_errors import PlainErrors

app = typer.Typer(
    cls=PlainErrors,
    help="A service for speculative speculative decoding: a drafter guesses ahead on one device "
    "while a verifier checks on another, and the text is exactly the target model's own.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command("serve")(serve.serve)
app.command("generate")(generate.generate)
app.command("chat")(chat.chat)
app.command("health")(health.health)
app.command("status")(status.status)
app.command("demo")(demo.demo)
app.command("trace")(trace.trace)
app.command("top")(top.top)
app.command("simulate")(simulate.simulate)
app.command("advise")(advise.advise)
app.command("measure")(measure.measure)
app.command("place")(place.place)
app.command("down")(down.down)
app.command("doctor")(doctor.doctor)
app.command("chaos")(chaos.chaos)
app.command("dump")(dump.dump)
app.command("replay")(dump.replay)
bench.app.command()(bench_oracle.oracle)
app.add_typer(bench.app, name="bench")
app.command("drain")(drain.drain)
app.add_typer(config.app, name="config")
