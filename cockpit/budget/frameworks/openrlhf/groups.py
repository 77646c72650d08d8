"""Which groups OpenRLHF makes, in which order: since 0.5.8 one GPU a bundle, packed; before, a node a bundle, strictly spread."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from cockpit.budget.demand import Group
from cockpit.budget.frameworks.openrlhf.args import ParsedArgs, UnreadError

Bundles = tuple[tuple[Mapping[str, float], int], ...]
_GPU = {"GPU": 1.0, "CPU": 1.0}


class Placement:
    """The groups of one command, as one release makes them."""

    def __init__(self, asked: ParsedArgs) -> None:
        self.asked = asked
        self.unread: dict[str, None] = {}
        self.groups = self._build_groups()

    def _build_groups(self) -> tuple[Group, ...] | None:
        try:
            return tuple(self._pack() if self.asked.since("0.5.8") else self._spread())
        except UnreadError as error:
            self.unread[str(error)] = None
            return None

    def _pack(self) -> Iterator[Group]:
        ask = self.asked
        everything = ask("colocate_all_models")
        hybrid = everything and not ask("async_train")
        critic = has_critic(ask)
        apart = critic and ask("colocate_critic_reward")
        late = [name for name, there in (("critic", critic), ("reward", has_reward(ask))) if there]
        early = ["actor", *(["ref"] if has_ref(ask) else [])]
        together = everything or ask("colocate_actor_ref")
        if together:
            guests = [*early, *(late if everything and not apart else []), *(["vLLM"] if hybrid and has_engines(ask) else [])]
            yield self._group(" + ".join(guests), lambda: (one_each(world(ask, "actor")), "PACK"))
        if not hybrid:
            yield from self._engines()
        yield from (self._model(role) for role in (() if together else early))
        if apart:
            yield self._group(" + ".join(late), lambda: (one_each(world(ask, "critic")), "PACK"))
        elif not everything:
            yield from (self._model(role) for role in late for _ in range(rewards(ask) if role == "reward" else 1))

    def _spread(self) -> Iterator[Group]:
        ask = self.asked
        critic, reward = has_critic(ask), has_reward(ask)
        if ask("colocate_actor_ref"):
            yield self._group("actor + ref", lambda: (nodes(ask, "actor"), "STRICT_SPREAD"))
        else:
            yield from (self._model("actor"), self._model("ref"))
        number = rewards(ask) if reward else 0
        if critic and ask("colocate_critic_reward"):
            yield self._group(" + ".join(["critic", *["reward"] * number]), lambda: (nodes(ask, "critic"), "STRICT_SPREAD"))
        else:
            yield from ([self._model("critic")] if critic else [])
            yield from (self._model("reward") for _ in range(number))
        yield from self._engines()

    def _model(self, role: str) -> Group:
        """One GPU a node is taken by an actor that is placed for itself."""
        return self._group(role, lambda: self._of_model(role))

    def _of_model(self, role: str) -> tuple[Bundles, str | None]:
        if self.asked(f"{role}_num_gpus_per_node") == 1:
            return one_each(world(self.asked, role)), None
        return (one_each(world(self.asked, role)), "PACK") if self.asked.since("0.5.8") else (nodes(self.asked, role), "STRICT_SPREAD")

    def _engines(self) -> Iterator[Group]:
        """Of one group for all since 0.6.0.post3; before, each engine of more than one GPU had its own."""
        ask = self.asked
        if not has_engines(ask):
            return
        if ask.since("0.6.0.post3"):
            yield self._group("vLLM", lambda: (one_each(engine_gpus(ask)), "PACK"))
        elif ask("vllm_tensor_parallel_size") > 1:
            size = ask("vllm_tensor_parallel_size")
            yield from (self._group("vLLM", lambda: (one_each(size), "PACK")) for _ in range(ask("vllm_num_engines")))
        else:
            shape = {"GPU": 1.0} if ask.since("0.5.8") else _GPU
            yield self._group("vLLM", lambda: (((shape, ask("vllm_num_engines")),), None))

    def _group(self, name: str, build: Callable[[], tuple[Bundles, str | None]]) -> Group:
        try:
            bundles, strategy = build()
        except UnreadError as error:
            self.unread[str(error)] = None
            return Group(name, None)
        return Group(name, bundles, strategy)  # type: ignore[arg-type]


def one_each(gpus: int) -> Bundles:
    """Bundles of one GPU."""
    return ((_GPU, gpus),)


def nodes(asked: ParsedArgs, role: str) -> Bundles:
    """Bundles of a whole node's share."""
    gpus = float(asked(f"{role}_num_gpus_per_node"))
    return (({"GPU": gpus, "CPU": gpus}, asked(f"{role}_num_nodes")),)


def world(asked: ParsedArgs, role: str) -> int:
    """A model's processes: one a GPU."""
    return int(asked(f"{role}_num_nodes") * asked(f"{role}_num_gpus_per_node"))


def engine_gpus(asked: ParsedArgs) -> int:
    """The GPUs of all vLLM engines."""
    return int((asked("vllm_num_engines") or 0) * asked("vllm_tensor_parallel_size"))


def has_engines(asked: ParsedArgs) -> bool:
    """Whether there is any vLLM engine."""
    return (asked("vllm_num_engines") or 0) > 0


def has_critic(asked: ParsedArgs) -> bool:
    """Only one estimator needs one, and only with a model; before 0.5.1 there was no other, and it was always made."""
    return bool(asked("advantage_estimator") == "gae") and not (asked.since("0.5.1") and asked.is_emptied("critic_pretrain"))


def has_ref(asked: ParsedArgs) -> bool:
    """Before 0.6.0 always; until 0.7.1 also with a negative coefficient."""
    if not asked.since("0.6.0"):
        return True
    return bool(asked("init_kl_coef") > 0 if asked.since("0.7.1.post1") else asked("init_kl_coef") != 0)


def has_reward(asked: ParsedArgs) -> bool:
    """Not where rewards come from elsewhere; else also where no reward model is named, but for simpleRL-reason."""
    named = asked.has_value("reward_pretrain") or not asked.fork
    return named and not asked.has_value("remote_rm_url") and not asked.has_value("agent_func_path")


def rewards(asked: ParsedArgs) -> int:
    """So many reward models, each with a group of its own: one since 0.6.3."""
    return 1 if asked.since("0.6.3") else len((asked("reward_pretrain") or "").split(","))
