# The container image of .ci/release, built by docker: the program and nothing else.
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION
RUN .ci/build /out/mainstay && mkdir -m 700 /out/data /out/tmp && mkdir /out/bin && ln -s /mainstay /out/bin/kube-apiserver

FROM scratch
COPY --from=build --chown=65532:65532 /out/data /data
COPY --from=build --chown=65532:65532 /out/tmp /tmp
COPY --from=build /out/mainstay /mainstay
# The command of static pods, as kubeadm writes them.
COPY --from=build /out/bin/ /usr/local/bin/
USER 65532:65532
VOLUME /data
EXPOSE 6443
ENTRYPOINT ["/mainstay"]
CMD ["serve", "--data-dir=/data", "--bind-address=0.0.0.0"]
