package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"time"
)

// imageUser is the ID of the user and group that the container runs as. By convention, many container images
// use this ID for an unprivileged user.
const imageUser = 65532

const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// descriptor identifies a blob by its digest, as in the OCI image specification.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type platform struct {
	OS           string `json:"os"`
	Architecture string `json:"architecture"`
}

type index struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Manifests     []descriptor `json:"manifests"`
}

type manifest struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Config        descriptor   `json:"config"`
	Layers        []descriptor `json:"layers"`
}

type imageConfig struct {
	platform
	Created string          `json:"created"`
	Config  containerConfig `json:"config"`
	RootFS  rootFS          `json:"rootfs"`
}

type containerConfig struct {
	User         string              `json:"User"`
	ExposedPorts map[string]struct{} `json:"ExposedPorts"`
	Entrypoint   []string            `json:"Entrypoint"`
	Cmd          []string            `json:"Cmd"`
	Volumes      map[string]struct{} `json:"Volumes"`
	Labels       map[string]string   `json:"Labels"`
}

type rootFS struct {
	Type    string   `json:"type"`
	DiffIDs []string `json:"diff_ids"`
}

// layout collects the blobs of an OCI image layout.
type layout struct{ blobs []entry }

// add adds a blob, unless the layout already contains it, and returns its descriptor.
func (l *layout) add(mediaType string, data []byte) descriptor {
	sum := hexSum(data)
	file := entry{name: "blobs/sha256/" + sum, mode: 0o644, data: data}
	if !slices.ContainsFunc(l.blobs, func(e entry) bool { return e.name == file.name }) {
		l.blobs = append(l.blobs, file)
	}
	return descriptor{MediaType: mediaType, Digest: "sha256:" + sum, Size: len(data)}
}

func (l *layout) addJSON(mediaType string, value any) (descriptor, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return descriptor{}, err
	}
	return l.add(mediaType, data), nil
}

func hexSum(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// writeImage writes a tar file with an OCI image layout. The image supports the platforms of all Linux
// binaries. It contains only the program, a link, and the writable directories /data and /tmp.
func (r *release) writeImage(path string, binaries []binary) error {
	var l layout
	images := index{SchemaVersion: 2, MediaType: typeIndex}
	for _, b := range binaries {
		if b.os != "linux" {
			continue
		}
		image, err := r.addImage(&l, b)
		if err != nil {
			return err
		}
		images.Manifests = append(images.Manifests, image)
	}
	if len(images.Manifests) == 0 {
		return errors.New("there is no binary for linux")
	}
	all, err := l.addJSON(typeIndex, images)
	if err != nil {
		return err
	}
	all.Annotations = map[string]string{"org.opencontainers.image.ref.name": r.version}
	top, err := json.Marshal(index{SchemaVersion: 2, MediaType: typeIndex, Manifests: []descriptor{all}})
	if err != nil {
		return err
	}
	files := append([]entry{
		{name: "oci-layout", mode: 0o644, data: []byte(`{"imageLayoutVersion":"1.0.0"}`)},
		{name: "index.json", mode: 0o644, data: top},
	}, l.blobs...)
	raw, err := tarOf(files, r.time)
	if err != nil {
		return err
	}
	return os.WriteFile(path, raw, 0o644)
}

// addImage adds the image of one platform.
func (r *release) addImage(l *layout, b binary) (descriptor, error) {
	program, err := os.ReadFile(b.path)
	if err != nil {
		return descriptor{}, err
	}
	raw, err := tarOf([]entry{
		{name: product, mode: 0o755, data: program},
		{name: "data/", mode: 0o700},
		{name: "tmp/", mode: 0o700},
		// The static pods of kubeadm run this command.
		{name: "usr/local/bin/kube-apiserver", mode: 0o777, link: "/" + product},
	}, r.time)
	if err != nil {
		return descriptor{}, err
	}
	zipped, err := gzipOf(raw)
	if err != nil {
		return descriptor{}, err
	}
	on := platform{OS: b.os, Architecture: b.arch}
	config, err := l.addJSON(typeConfig, imageConfig{
		platform: on, Created: r.time.Format(time.RFC3339),
		Config: containerConfig{
			User: "65532:65532", ExposedPorts: map[string]struct{}{"6443/tcp": {}}, Volumes: map[string]struct{}{"/data": {}},
			Entrypoint: []string{"/" + product}, Cmd: []string{"serve", "--data-dir=/data", "--bind-address=0.0.0.0"},
			Labels: map[string]string{
				"org.opencontainers.image.title": product, "org.opencontainers.image.version": r.version,
				"org.opencontainers.image.licenses": "Apache-2.0",
			},
		},
		RootFS: rootFS{Type: "layers", DiffIDs: []string{"sha256:" + hexSum(raw)}},
	})
	if err != nil {
		return descriptor{}, err
	}
	image, err := l.addJSON(typeManifest, manifest{
		SchemaVersion: 2, MediaType: typeManifest, Config: config, Layers: []descriptor{l.add(typeLayer, zipped)},
	})
	image.Platform = &on
	return image, err
}
