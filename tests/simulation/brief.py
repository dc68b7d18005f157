"""A message in a few words, for the log of a run."""

from ssd.core.messages import Close, Commit, Finished, Grow, Need, Open, Rates, Refused, Resume

Message = Open | Resume | Commit | Close | Rates | Grow | Need | Refused | Finished


def brief(message: Message) -> str:
    name = type(message).__name__
    if isinstance(message, Rates):
        return name
    text = f"{name} {message.session_id}.{message.epoch % 1000}"
    if isinstance(message, Commit):
        return f"{text} at {message.base_len}: {message.token_ids}"
    if isinstance(message, Open):
        return f"{text} with {len(message.token_ids)} of {message.max_len}, {message.mode}"
    if isinstance(message, Refused):
        return f"{text}: {message.kind}"
    if isinstance(message, Grow):
        positions = [each.position for each in message.expansions]
        done = ", exhausted" if message.is_exhausted else ""
        return f"{text} at {message.base_len}: expansions at {positions}{done}"
    return text
