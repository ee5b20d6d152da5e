"""OpenAI's library of Python: what its users do with an agent, with its own defaults. Every check is an outcome."""

import asyncio

import openai
from world import GIVEN, count, fails, idle, mark, run, same

BASE = GIVEN["url"] + "/v1"
api = openai.OpenAI(api_key=GIVEN["token"], base_url=BASE)
stranger = openai.OpenAI(api_key="another-0123456789", base_url=BASE)
completions = api.chat.completions


def ask(content, **more):
    return {"model": "desk", "messages": [{"role": "user", "content": content}], **more}


def models():
    same([model.id for model in api.models.list()], ["desk"])
    same(api.models.retrieve("desk").id, "desk")
    fails(openai.NotFoundError, 404, lambda: api.models.retrieve("nothing"))


def chat():
    whole = completions.create(**ask("chat one"))
    same((whole.choices[0].message.content, whole.choices[0].finish_reason), ("chat one", "stop"))
    assert whole.usage.total_tokens > 0, whole
    stream = completions.create(**ask("chat two words", stream=True, stream_options={"include_usage": True}))
    chunks = list(stream)
    pieces = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices and chunk.choices[0].delta.content]
    same("".join(pieces), "chat two words")
    assert len(pieces) > 1, pieces
    assert chunks[-1].usage.total_tokens > 0, chunks[-1]
    with completions.stream(**ask("chat three")) as helped:
        same(helped.get_final_completion().choices[0].message.content, "chat three")


def responses():
    first = api.responses.create(model="desk", input="say one")
    same((first.status, first.output_text), ("completed", "say one"))
    second = api.responses.create(model="desk", input="say two", previous_response_id=first.id)
    same(second.output_text, "say one+say two")
    same(api.responses.retrieve(second.id).output_text, "say one+say two")
    events = list(api.responses.create(model="desk", input="say three words", stream=True))
    same((events[0].type, events[-1].type), ("response.created", "response.completed"))
    deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
    same(("".join(deltas), events[-1].response.output_text), ("say three words", "say three words"))
    assert len(deltas) > 1, deltas
    with api.responses.stream(model="desk", input="say four") as helped:
        for _ in helped:
            pass
        same(helped.get_final_response().output_text, "say four")


def at_once():
    async def both():
        async with openai.AsyncOpenAI(api_key=GIVEN["token"], base_url=BASE) as client:
            async def one(text):
                stream = await client.chat.completions.create(**ask(text, stream=True))
                return "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])
            return await asyncio.gather(*(one(f"at once {number}") for number in range(5)))

    same(asyncio.run(both()), [f"at once {number}" for number in range(5)])


def tools():
    word, asked = mark(), mark()
    answer = completions.create(**ask(f"note {word}"))
    assert word in answer.choices[0].message.content, answer
    same(count(word)[1], 1)
    refused = completions.create(**ask(f"refund {asked}"))
    assert refused.choices[0].message.content.startswith("It said "), refused
    same(count(asked)[1], 0)


def errors():
    fails(openai.AuthenticationError, 401, lambda: stranger.chat.completions.create(**ask("hello")))
    fails(openai.AuthenticationError, 401, lambda: stranger.responses.create(model="desk", input="hello"))
    fails(openai.NotFoundError, 404, lambda: completions.create(**{**ask("hello"), "model": "nothing"}))
    fails(openai.NotFoundError, 404, lambda: api.responses.retrieve("resp_nothing"))
    function = {"type": "function", "function": {"name": "f", "parameters": {}}}
    refused = fails(openai.BadRequestError, 400, lambda: completions.create(**ask("hello", tools=[function])))
    same(refused.param, "tools")
    fails(openai.APIError, None, lambda: list(completions.create(**ask("fail", stream=True))))


def once():
    after, without, response = mark(), mark(), mark()
    fails(openai.InternalServerError, 502, lambda: completions.create(**ask(f"note, then fail {after}")))
    same(count(after), (1, 1))
    text = f"note, then fail {response}"
    fails(openai.InternalServerError, 502, lambda: api.responses.create(model="desk", input=text))
    same(count(response), (1, 1))
    # Nothing was done: its two retries show that it would.
    fails(openai.InternalServerError, 502, lambda: completions.create(**ask(f"fail {without}")))
    same(count(without), (3, 0))


def keyed():
    slow, lost, failed, again = mark(), mark(), mark(), mark()

    def send(text, word, client=api, **more):
        return client.chat.completions.create(**ask(text), extra_headers={"Idempotency-Key": f"key-{word}"}, **more)

    # The answer takes longer than the client waits, who asks twice more.
    answer = send(f"note, then wait {slow}", slow, timeout=1.0)
    assert slow in answer.choices[0].message.content, answer
    same(count(slow), (1, 1))
    impatient = api.with_options(max_retries=0)
    fails(openai.APITimeoutError, None, lambda: send(f"note, then wait {lost}", lost, client=impatient, timeout=1.0))
    assert lost in send(f"note, then wait {lost}", lost).choices[0].message.content
    same(count(lost), (1, 1))
    for _ in range(2):
        fails(openai.InternalServerError, 502, lambda: send(f"note, then fail {failed}", failed))
    same(count(failed), (1, 1))
    same(send(f"note {again}", again).id, send(f"note {again}", again).id)
    same(count(again), (1, 1))
    fails(openai.UnprocessableEntityError, 422, lambda: send("another", again))


def left():
    stream = completions.create(**ask("hang", stream=True))
    for chunk in stream:
        if chunk.choices and chunk.choices[0].delta.content:
            break
    stream.close()
    idle()


run({
    "models": models,
    "chat completions, whole and streamed": chat,
    "responses, whole, streamed and continued": responses,
    "several streams at once": at_once,
    "a tool, and one that needs a person": tools,
    "errors by class": errors,
    "one call when an answer fails after a tool ran": once,
    "with a key, retries run no tool twice": keyed,
    "a stream that is left": left,
})
