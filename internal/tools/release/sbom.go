package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"os"
	"runtime/debug"
	"time"
)

// sbom is a software bill of materials in the format CycloneDX 1.6. It is created from the build information
// that the linker stored in a binary.
type sbom struct {
	Format     string      `json:"bomFormat"`
	Spec       string      `json:"specVersion"`
	Version    int         `json:"version"`
	Metadata   metadata    `json:"metadata"`
	Components []component `json:"components"`
}

type metadata struct {
	Timestamp string    `json:"timestamp"`
	Component component `json:"component"`
}

type component struct {
	Type       string     `json:"type"`
	Ref        string     `json:"bom-ref"`
	Name       string     `json:"name"`
	Version    string     `json:"version"`
	PURL       string     `json:"purl,omitempty"`
	Hashes     []hash     `json:"hashes,omitempty"`
	Properties []property `json:"properties,omitempty"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// writeSBOM writes the bill of materials of a binary.
func (r *release) writeSBOM(path string, b binary) error {
	info, err := buildinfo.ReadFile(b.path)
	if err != nil {
		return err
	}
	program, err := os.ReadFile(b.path)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(program)
	made := sbom{Format: "CycloneDX", Spec: "1.6", Version: 1, Metadata: metadata{
		Timestamp: r.time.Format(time.RFC3339),
		Component: component{
			Type: "application", Ref: info.Main.Path, Name: info.Main.Path, Version: r.version,
			PURL:   "pkg:golang/" + info.Main.Path + "@" + r.version,
			Hashes: []hash{{Algorithm: "SHA-256", Content: hex.EncodeToString(sum[:])}},
		},
	}}
	for _, s := range info.Settings {
		made.Metadata.Component.Properties = append(made.Metadata.Component.Properties, property{Name: "go:build:" + s.Key, Value: s.Value})
	}
	made.Components = append(made.Components, library("stdlib", info.GoVersion, ""))
	for _, dep := range info.Deps {
		made.Components = append(made.Components, moduleOf(dep))
	}
	out, err := json.MarshalIndent(made, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(out, '\n'), 0o644)
}

func moduleOf(dep *debug.Module) component {
	if dep.Replace != nil {
		dep = dep.Replace
	}
	return library(dep.Path, dep.Version, dep.Sum)
}

// library returns the component for a Go module. sum is the checksum in go.sum. It is stored as a property,
// because it is not the hash of a file.
func library(path, version, sum string) component {
	c := component{Type: "library", Name: path, Version: version, PURL: "pkg:golang/" + path + "@" + version}
	c.Ref = c.PURL
	if sum != "" {
		c.Properties = []property{{Name: "go:sum", Value: sum}}
	}
	return c
}
