"""Searches the bench's vectors with another program: `peers.py sqlite-vec|chroma FOLDER`, one line of JSON."""

import json
import os
import resource
import sys
import time

import numpy

LIMIT = 10


def spread(times):
    times = sorted(times)
    at = lambda part: times[round((len(times) - 1) * part)] * 1e3
    return {"p50_ms": at(0.5), "p99_ms": at(0.99)}


def size(folder):
    return sum(os.path.getsize(os.path.join(at, name)) for at, _, names in os.walk(folder) for name in names)


def sqlite_vec(folder, vectors):
    import apsw
    import sqlite_vec

    database = apsw.Connection(os.path.join(folder, "vec.db"))
    database.enable_load_extension(True)
    database.load_extension(sqlite_vec.loadable_path())
    dimensions = vectors.shape[1]
    database.execute(f"CREATE VIRTUAL TABLE v USING vec0(e float[{dimensions}] distance_metric=cosine)")
    with database:
        database.executemany("INSERT INTO v(rowid, e) VALUES (?, ?)", ((i, v.tobytes()) for i, v in enumerate(vectors)))
    sql = f"SELECT rowid FROM v WHERE e MATCH ? AND k = {LIMIT} ORDER BY distance"
    version = database.execute("SELECT vec_version()").fetchone()[0]
    return version, lambda query: [row[0] for row in database.execute(sql, (query.tobytes(),))]


def chroma(folder, vectors):
    import chromadb

    settings = chromadb.Settings(anonymized_telemetry=False)
    client = chromadb.PersistentClient(path=folder, settings=settings)
    collection = client.create_collection(
        "vectors", configuration={"hnsw": {"space": "cosine"}}, embedding_function=None
    )
    for start in range(0, len(vectors), 5000):
        part = vectors[start : start + 5000]
        collection.add(ids=[str(start + i) for i in range(len(part))], embeddings=part)
    ask = lambda query: collection.query(query_embeddings=query[None, :], n_results=LIMIT, include=[])
    return chromadb.__version__, lambda query: [int(name) for name in ask(query)["ids"][0]]


def main():
    peer, folder = sys.argv[1:]
    nearest = json.load(open(os.path.join(folder, "nearest.json")))
    load = lambda name: numpy.fromfile(os.path.join(folder, name), dtype="<f4").reshape(len(nearest), -1)
    queries = load("queries")
    vectors = numpy.fromfile(os.path.join(folder, "vectors"), dtype="<f4").reshape(-1, queries.shape[1])
    own = os.path.join(folder, peer)
    os.makedirs(own)
    started = time.perf_counter()
    version, ask = {"sqlite-vec": sqlite_vec, "chroma": chroma}[peer](own, vectors)
    built = time.perf_counter() - started
    ask(queries[0])
    times, hits = [], 0
    for query, wanted in zip(queries, nearest):
        started = time.perf_counter()
        found = ask(query)
        times.append(time.perf_counter() - started)
        hits += len(set(found) & set(wanted))
    figures = {
        "version": version,
        "count": len(vectors),
        "chunks_per_second": len(vectors) / built,
        "bytes_per_chunk": size(own) / len(vectors),
        "search": spread(times),
        "recall": hits / (LIMIT * len(queries)),
        "peak_kib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
    }
    print(json.dumps(figures))


main()
