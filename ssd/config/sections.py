"""The settings, one section per part of the service.

The text below a setting is its description, which examples/ssd.yaml and the manual print. Its type
carries its limits.
"""

from typing import Literal, Self

from pydantic import model_validator

from ssd.config.values import (
    Address,
    Count,
    Dtype,
    Fraction,
    Index,
    Label,
    Memory,
    Milliseconds,
    Port,
    Seconds,
    Section,
    Share,
    Siblings,
    Text,
)
from ssd.core.drafter_kind import TRAITS, DrafterKind
from ssd.core.fan_out import GrowthOrder
from ssd.core.mode import Mode
from ssd.core.ngram_limits import NgramForm
from ssd.core.rule import Rule

EMBEDDED_PAIR = "tales"
"""The pair that ships with the checkout."""


class ModelsSection(Section):
    """The pair of models and how they are run."""

    target: Text = EMBEDDED_PAIR
    """Target model: an embedded pair's name, a folder, a .gguf file, or a name on the hub."""
    draft: Text | None = None
    """Draft model, named likewise; null: the embedded target's own draft, or none at all."""
    draft_layers: Count | None = None
    """Draft with the first layers of the target, this many, instead of a model of its own."""
    # Exact up to ties of 1e-4 and, below some 5M parameters, faster on a CPU than bf16.
    target_dtype: Dtype = "fp32"
    """Number format the target computes in."""
    draft_dtype: Dtype = "fp32"
    """Number format the draft computes in; it cannot change the text."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where the models run; auto takes CUDA where there is one."""
    runner: Literal["auto", "transformers"] = "auto"
    """Forward pass: our own lean one where the shape is known to it, or that of transformers."""
    hub_offline: bool = True
    """Never ask the hub: a model that is not on this machine is refused at once."""
    trust_remote_code: bool = False
    """Run Python code that comes with a model."""
    chat_template: Text | None = None
    """File with a jinja template for chat messages; null: the model's own."""

    @model_validator(mode="after")
    def _check_one_draft(self) -> Self:
        if self.draft_layers is not None and self.draft is not None:
            raise ValueError(
                f"models.draft_layers ({self.draft_layers}) makes the draft out of the target;"
                f" leave out models.draft ({self.draft})"
            )
        return self


class CoordinatorSection(Section):
    """The coordinator: what clients talk to."""

    host: Text = "127.0.0.1"
    """Address it listens on."""
    port: Port = 50050
    """Port it listens on; 0 picks a free one."""
    ordinal: Index = 0
    """Its number among several coordinators; the request ids that it mints end in it."""
    peers: tuple[Address, ...] = ()
    """Addresses of all coordinators in the order of their ordinals; none means that it is alone."""
    max_sessions: Count = 32
    """Sessions that run at the same time."""
    # As many again: the last in the queue waits for about one more generation.
    max_queue: Index = 32
    """Requests that wait for a session; beyond them RESOURCE_EXHAUSTED is the answer."""
    default_max_tokens: Count | None = None
    """Tokens a request may generate when it names no limit; null is what the context leaves."""
    keep_s: Seconds = 60.0
    """Seconds that a text is kept for a client whose call broke, or that wants it again."""
    journal: Text | None = None
    """Folder in which sessions survive a restart of the coordinator; null keeps them in memory."""
    # A crash of the process alone loses nothing written; this is about the machine's.
    journal_fsync: Literal["always", "interval", "never"] = "interval"
    """When records reach the disk itself: before a client sees them, each second, or whenever."""
    journal_max_bytes: Count = 64 * 2**20
    """Bytes of the journal's file; running sessions that need more keep new ones out."""
    journal_max_age_s: Seconds = 86_400.0
    """Seconds after which a session leaves the journal, whatever became of it."""
    journal_erase_s: Seconds = 10.0
    """Seconds after which the text of a session that is over is gone from the disk."""
    stalled_client_timeout_s: Seconds = 60.0
    """Seconds after which a client that takes nothing is cancelled."""
    max_connection_age_s: Seconds | None = None
    """Seconds after which a connection takes no new calls; those that it carries go on."""
    reflection: bool = False
    """Let clients ask for the protocol (gRPC server reflection)."""


class VerifierSection(Section):
    """The verifier: the process that runs the target."""

    host: Text = "127.0.0.1"
    """Address it listens on."""
    port: Port = 0
    """Port it listens on; 0 picks a free one."""
    # A bound for texts that are easy to guess; elsewhere rows are too dear long before.
    max_tree_nodes: Count = 12
    """Nodes of a session's draft tree that one round verifies, at most."""
    max_rows: Count = 256
    """Rows of one forward over all sessions, at most; a prompt longer than this goes in chunks."""
    # Memory is taken as slots are used, and unused prefixes go when a session needs the room.
    kv_memory: Memory = "auto"
    """Memory for the KV of all sessions; auto: 40 % of what is free at start, 80 % of a GPU's."""
    kv_slots: Count | None = None
    """KV slots of all sessions together, one for each token, instead of what kv_memory gives."""
    core: Index | None = None
    """CPU core that an engine of one thread is pinned to; null leaves it to whoever places it."""
    # One core each leaves room for the streams on a small machine.
    threads: Count = 1
    """CPU threads of a forward."""
    drafter_delay_ms: Milliseconds = 0.0
    """Hold back what goes to drafters and what comes from them, to measure what a network costs."""

    @model_validator(mode="after")
    def _check_tree_fits(self) -> Self:
        if self.max_rows <= self.max_tree_nodes:
            raise ValueError(
                f"verifier.max_rows ({self.max_rows}) must be greater than"
                f" verifier.max_tree_nodes ({self.max_tree_nodes}): the root takes a row too"
            )
        return self


class DrafterSection(Section):
    """The drafter: the process that runs the draft."""

    host: Text = "127.0.0.1"
    """Address it listens on."""
    port: Port = 0
    """Port it listens on; 0 picks a free one."""
    # A chain of eight under verification and a next one of twelve.
    max_depth: Count = 20
    """Tokens that it drafts ahead of the committed text, at most."""
    # With 4 candidates one round in five ended on a token not listed, with 8 one in twenty-five.
    candidates: Count = 6
    """Candidates that it lists per expansion."""
    frontier: Count = 12
    """Nodes that one growth step expands over all sessions."""
    # A narrow step answers sooner, and the waiting verifier uses only its first few nodes.
    frontier_while_waiting: Count = 2
    """Nodes that one growth step expands while a verifier waits."""
    min_reach: Share = 1e-3
    """Growth stops at nodes that the target reaches with a smaller probability than this."""
    # 0.15 spares memory that the verifier shares: 2 to 7 % on two cores; from 0.3 on it costs hits.
    min_step_reach: Share = 0.15
    """While nobody waits, a growth step's nodes are reached with this probability at least."""
    growth: GrowthOrder = GrowthOrder.REACH
    """What grows first: what is likeliest reached, or a geometric or uniform fan-out."""
    sd_depth: Count = 4
    """Tokens of the chain that mode sd drafts per round."""
    sd_frontier: Count = 1
    """Nodes that a step of mode sd expands: 1 drafts a chain, more a tree like that of mode ssd."""
    siblings: Siblings | None = None
    """Candidates of one node that may be verified, 1 for chains; null: all, under rule ratio 1."""
    law_size: Count = 64
    """Likeliest tokens that the draft samples from under rule ratio, and whose law it sends."""
    saguaro: Share = 1.0
    """Factor on the draft's likeliest tokens under rule ratio; less: more hits, fewer accepted."""
    max_rows: Count = 256
    """Rows of one forward over all sessions, at most."""
    # A quarter of its rows: a long prompt and the drafts of others share a step.
    prefill_rows: Count = 64
    """Rows of a forward that prompts get, at most, while other sessions have work too."""
    kv_memory: Memory = "auto"
    """Memory for the KV of all sessions; auto: 20 % of what is free at start, 80 % of a GPU's."""
    kv_slots: Count | None = None
    """KV slots of all sessions together, one for each token, instead of what kv_memory gives."""
    core: Index | None = None
    """CPU core that an engine of one thread is pinned to; null leaves it to whoever places it."""
    threads: Count = 1
    """CPU threads of a forward."""

    @model_validator(mode="after")
    def _check_waiting_frontier(self) -> Self:
        if self.frontier_while_waiting > self.frontier:
            raise ValueError(
                f"drafter.frontier_while_waiting ({self.frontier_while_waiting}) must be at most"
                f" drafter.frontier ({self.frontier})"
            )
        return self


class SpeculationSection(Section):
    """How requests are decoded."""

    mode: Mode = Mode.SSD
    """Mode of a request that names none: ssd drafts ahead, sd in turn, ar never, shadow counts."""
    allow_request_mode: bool = True
    """Let a request choose its own mode."""
    rule: Rule = Rule.COUPLED
    """Rule of a request that names none: coupled, where the seed fixes the text, or ratio."""
    drafters: tuple[DrafterKind, ...] = ()
    """Who drafts: a list of model, ngram and self; none named: the model, if there is a draft."""
    adapt: bool = True
    """Pause drafters that do not pay, each session for itself, and probe them again; mode ssd."""
    # Eight tests decide in clear cases; this bounds the others.
    pause_rounds: Count = 32
    """Rounds that a drafter may go on without bringing what it costs, at most."""
    probe_rounds: Count = 64
    """Rounds after which a paused drafter is asked again; up to four times that after failures."""
    # Rows may cost nothing on a device that waits for memory; the drafter's own time is not free.
    min_acceptance: Fraction = 0.1
    """Share of first candidates that must come true, whatever rows cost, for a drafter to go on."""

    @model_validator(mode="after")
    def _check_one_process_drafts(self) -> Self:
        models = [each for each in self.drafters if TRAITS[each].has_weights]
        if len(models) > 1:
            raise ValueError(
                f"speculation.drafters ({', '.join(self.drafters)}): model and self both need the"
                " drafter's device; name one of them"
            )
        if self.rule is Rule.RATIO and len(self.drafters) > 1:
            raise ValueError(
                f"speculation.drafters ({', '.join(self.drafters)}): rule ratio takes one drafter"
            )
        return self


class NgramSection(Section):
    """The n-gram drafter: what was said before is said again."""

    form: NgramForm = NgramForm.SIMPLE
    """What it remembers: simple where each run of tokens was, map-k and map-k4v what followed."""
    preset: Literal["code", "text"] = "code"
    """What the settings below are where null: code 12, 48 and 1, text 8, 32 and 2."""
    size_n: Count | None = None
    """Tokens of the longest run that is looked for."""
    size_m: Count | None = None
    """Tokens that it drafts ahead of the committed text, at most."""
    min_hits: Count | None = None
    """Times that a run must have been there before it counts."""
    # On twenty edited files 6.6 tokens a round with 1, 6.1 with 2, 5.4 with 3.
    shortest: Count = 1
    """Tokens of the shortest run that is looked for."""
    candidates: Count = 6
    """Candidates that it lists per place; map-k4v counts four."""
    table_mb: Count = 16
    """Mebibytes that what it remembers of one text may take, or of all where they share it."""
    # What one user's text holds would speed up another's, which can be measured.
    shared: bool = False
    """Share one table over the sessions of equal cache salt (map-k, map-k4v)."""
    place: Literal["verifier", "process"] = "verifier"
    """Where it runs: inside the verifier, without a message, or as a drafter process beside it."""

    @model_validator(mode="after")
    def _check_table_is_shared(self) -> Self:
        if self.shared and self.form is NgramForm.SIMPLE:
            raise ValueError("ngram.shared needs ngram.form map-k or map-k4v: simple has no table")
        return self


class TimeoutsSection(Section):
    """When a peer counts as lost."""

    heartbeat_s: Seconds = 0.25
    """Seconds between two heartbeats on a stream between services."""
    # Four heartbeats: one late by a long garbage collection is no death.
    peer_dead_s: Seconds = 1.0
    """Seconds without a heartbeat after which a peer is dead."""
    engine_stall_s: Seconds = 10.0
    """Seconds that an engine with work may stand still before its process ends itself."""
    connect_s: Seconds = 5.0
    """Seconds that a connection to a peer may take."""
    # Longer than a restart of the other end takes, and short enough not to waste its KV.
    lease_s: Seconds = 10.0
    """Seconds that a worker keeps the KV of a coordinator or verifier it hears nothing from."""
    # A cut connection is dialed again in a tenth of this.
    resume_s: Seconds = 0.3
    """Seconds that a session waits for its own verifier before it is moved to another."""
    reopen_s: Seconds = 30.0
    """Seconds that a session waits for a verifier that can go on with it."""
    # Kubernetes kills a pod after 30 s unless told otherwise.
    drain_s: Seconds = 25.0
    """Seconds that running sessions get to finish, or move, when a process is told to stop."""

    @model_validator(mode="after")
    def _check_heartbeat_is_shorter(self) -> Self:
        if self.peer_dead_s <= self.heartbeat_s:
            raise ValueError(
                f"timeouts.peer_dead_s ({self.peer_dead_s:g}) must be greater than"
                f" timeouts.heartbeat_s ({self.heartbeat_s:g})"
            )
        if self.lease_s <= self.heartbeat_s:
            raise ValueError(
                f"timeouts.lease_s ({self.lease_s:g}) must be greater than"
                f" timeouts.heartbeat_s ({self.heartbeat_s:g})"
            )
        return self


class SecuritySection(Section):
    """Who may connect, and how connections are encrypted."""

    tls_cert: Text | None = None
    """PEM file with this process's certificate chain; null: everything goes in clear text."""
    tls_key: Text | None = None
    """PEM file with the certificate's private key."""
    tls_ca: Text | None = None
    """PEM file with the authorities that the certificates of peers, and of clients, come from."""
    tls_require_client_cert: bool = False
    """Refuse connections that show no certificate of security.tls_ca."""
    tls_server_name: Text | None = None
    """Name in the certificates of the services, where it is not the address they are dialed at."""
    cluster_token: Text | None = None
    """File with the secret that the services show each other; needed with security.tls_cert."""
    api_keys: Text | None = None
    """File with the keys of clients, a line each: NAME KEY; null lets everybody generate."""
    max_sessions_per_key: Count | None = None
    """Sessions of one key that may run or wait at the same time."""

    @model_validator(mode="after")
    def _check_tls_is_whole(self) -> Self:
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("security.tls_cert and security.tls_key go together")
        if self.tls_cert is not None and self.tls_ca is None:
            raise ValueError("security.tls_cert needs security.tls_ca, to know peers by")
        if self.tls_cert is not None and self.cluster_token is None:
            raise ValueError(
                "security.tls_cert needs security.cluster_token, or any client could pose as a"
                " model"
            )
        if self.tls_cert is None and self.tls_require_client_cert:
            raise ValueError("security.tls_require_client_cert needs security.tls_cert")
        if self.max_sessions_per_key is not None and self.api_keys is None:
            raise ValueError("security.max_sessions_per_key needs security.api_keys")
        return self


class ClusterSection(Section):
    """Where the processes run."""

    ray_address: Text = "auto"
    """Ray to place the models with: auto for this machine's, HOST:PORT of its head, or ray://HOST:PORT."""
    namespace: Text = "ssd"
    """Ray namespace of the named actors."""
    require_gpu: bool = False
    """Refuse to place a model on a machine without a GPU."""
    coordinators: tuple[Address, ...] = ()
    """Coordinators that the models register with; none means the one of section coordinator."""
    pairs: Count = 1
    """Pairs of a drafter and a verifier to place; each worker takes a device of its own."""
    release: Label | None = None
    """What the workers' names begin with, for two sets of workers that serve side by side."""
    role_label: Text | None = None
    """Ray node label whose value is the role a node is for, drafter or verifier; null: any node."""
    # Ray counts cores by node: two of its nodes on one machine, as pods are, both begin at zero.
    pin_cores: bool = True
    """Pin each engine on a CPU to a core; off where several Ray nodes share a machine."""


class MetricsSection(Section):
    """Figures for Prometheus: every process serves its own at /metrics."""

    enabled: bool = True
    """Serve them."""
    # Figures tell much about the traffic: whoever opens them to a network should decide so.
    host: Text = "127.0.0.1"
    """Address that they are served at."""
    coordinator_port: Port = 0
    """The coordinator's port; 0 picks a free one. Its /targets names the workers to Prometheus."""
    verifier_port: Port = 0
    """A verifier's port; 0 picks a free one, as several on a machine need."""
    drafter_port: Port = 0
    """A drafter's port; 0 picks a free one, as several on a machine need."""


class LoggingSection(Section):
    """What is logged."""

    flight_dir: Text | None = None
    """Folder for the flight records of a worker that breaks; null: one in the temporary folder."""
    flight_tokens: bool = False
    """Write token ids into those records, so that they can be replayed in full."""
    level: Literal["debug", "info", "warning", "error"] = "info"
    """Lowest level that is logged."""
    format: Literal["console", "json"] = "console"
    """Lines for a person or one JSON object per event."""
    prompts: bool = False
    """Log the text of prompts with each request that ended."""
