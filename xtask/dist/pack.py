"""Packs a folder as a tarball, a wheel, a package for npm or a package for Debian, the same bytes each time.

Called by `cargo xtask dist` with one JSON object: `kind`, `folder`, `to`, `time` and the facts that the kind needs.
"""
import base64
import gzip
import hashlib
import io
import json
import pathlib
import sys
import tarfile
import time
import zipfile


def files(folder):
    """Every file below a folder with its name in it, in the order of the names."""
    found = (path for path in folder.rglob("*") if path.is_file())
    return sorted((path.relative_to(folder).as_posix(), path) for path in found)


def is_program(path):
    return bool(path.stat().st_mode & 0o100)


def tar_gz(entries, when):
    """A compressed archive of (name, bytes, is it a program), with the folders above them."""
    plain, out = io.BytesIO(), io.BytesIO()
    folders = {}
    for name, _, _ in entries:
        for parent in reversed(pathlib.PurePosixPath(name).parents[:-1]):
            folders[str(parent)] = None
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name in folders:
            about = tarfile.TarInfo(name + "/")
            about.type, about.mode, about.mtime = tarfile.DIRTYPE, 0o755, when
            archive.addfile(about)
        for name, content, executable in entries:
            about = tarfile.TarInfo(name)
            about.size, about.mtime, about.mode = len(content), when, 0o755 if executable else 0o644
            archive.addfile(about, io.BytesIO(content))
    with gzip.GzipFile(filename="", fileobj=out, mode="wb", mtime=when, compresslevel=9) as packed:
        packed.write(plain.getvalue())
    return out.getvalue()


def read_all(folder, prefix):
    return [(prefix + name, path.read_bytes(), is_program(path)) for name, path in files(folder)]


def tarball(job, folder):
    return tar_gz(read_all(folder, job["top"] + "/"), job["time"])


def npm(job, folder):
    return tar_gz(read_all(folder, "package/"), job["time"])


def wheel(job, folder):
    """PEP 427: the program is a script of the wheel, so that no Python runs when it is called."""
    name, version = job["name"].replace("-", "_"), job["version"]
    about = f"{name}-{version}.dist-info/"
    metadata = "\n".join(
        ["Metadata-Version: 2.1", f"Name: {job['name']}", f"Version: {version}", f"Summary: {job['summary']}",
         f"License: {job['license']}", "Requires-Python: >=3.8", "Description-Content-Type: text/markdown", "",
         (folder / "README.md").read_text()])
    tags = "".join(f"Tag: {tag}\n" for tag in job["tags"])
    entries = [
        (f"{name}-{version}.data/scripts/holodeck", (folder / "holodeck").read_bytes(), True),
        (about + "METADATA", metadata.encode(), False),
        (about + "WHEEL", f"Wheel-Version: 1.0\nGenerator: holodeck\nRoot-Is-Purelib: false\n{tags}".encode(), False),
    ]
    entries += [(about + "licenses/" + file, (folder / file).read_bytes(), False) for file in job["licenses"]]
    record = "".join(
        "{},sha256={},{}\n".format(
            file, base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("="), len(content))
        for file, content, _ in entries)
    entries.append((about + "RECORD", (record + about + "RECORD,,\n").encode(), False))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for file, content, executable in entries:
            info = zipfile.ZipInfo(file, time.gmtime(job["time"])[:6])
            info.create_system, info.compress_type = 3, zipfile.ZIP_DEFLATED
            info.external_attr = (0o100755 if executable else 0o100644) << 16
            archive.writestr(info, content)
    return out.getvalue()


def deb(job, folder):
    """deb(5): an `ar` archive of two archives."""
    data = tar_gz(read_all(folder, "./"), job["time"])
    size = sum(path.stat().st_size for _, path in files(folder)) // 1024
    control = "".join(f"{field}: {value}\n" for field, value in {**job["control"], "Installed-Size": size}.items())
    sums = "".join(f"{hashlib.md5(path.read_bytes()).hexdigest()}  {name}\n" for name, path in files(folder))
    control = tar_gz([("./control", control.encode(), False), ("./md5sums", sums.encode(), False)], job["time"])
    out = b"!<arch>\n"
    for name, content in (("debian-binary", b"2.0\n"), ("control.tar.gz", control), ("data.tar.gz", data)):
        out += f"{name:<16}{job['time']:<12}{0:<6}{0:<6}{100644:<8}{len(content):<10}`\n".encode() + content
        out += b"\n" * (len(content) % 2)
    return out


if __name__ == "__main__":
    order = json.loads(sys.argv[1])
    kinds = {"tarball": tarball, "npm": npm, "wheel": wheel, "deb": deb}
    pathlib.Path(order["to"]).write_bytes(kinds[order["kind"]](order, pathlib.Path(order["folder"])))
