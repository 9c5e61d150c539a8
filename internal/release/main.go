// Command release makes of built binaries what people download: an archive and a
// bill of materials for each platform, a container image, and the checksums of all.
// The same binaries give the same bytes. .ci/release builds the binaries and runs it.
package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// product is the name of the program and of everything that is made of it.
const product = "mainstay"

func main() {
	r := release{}
	var seconds int64
	flag.StringVar(&r.version, "version", "", "version that the files are named after")
	flag.StringVar(&r.binaries, "binaries", "", "folder of the binaries, GOOS_GOARCH/mainstay each")
	flag.StringVar(&r.out, "out", "", "folder that the files are written to")
	flag.Int64Var(&seconds, "time", 0, "the release's time, in seconds since 1970")
	flag.Parse()
	r.time, r.extra = time.Unix(seconds, 0).UTC(), flag.Args()
	if err := r.write(); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// release is what is to be made.
type release struct {
	version, binaries, out string
	time                   time.Time
	extra                  []string // files that each archive holds beside the binary
}

// binary is the program for one platform.
type binary struct {
	os, arch string
	path     string
}

// base is the name of the program's file.
func (b binary) base() string { return filepath.Base(b.path) }

func (b binary) platform() string { return b.os + "_" + b.arch }

// write writes everything.
func (r *release) write() error {
	if r.version == "" || r.binaries == "" || r.out == "" {
		return errors.New("-version, -binaries and -out are required")
	}
	built, err := findBinaries(r.binaries)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	var files []string
	add := func(name string, write func(path string) error) error {
		files = append(files, name)
		if err := write(filepath.Join(r.out, name)); err != nil {
			return fmt.Errorf("make %s: %w", name, err)
		}
		return nil
	}
	for _, b := range built {
		base := product + "_" + r.version + "_" + b.platform()
		write, suffix := r.writeTar, ".tar.gz"
		if b.os == "windows" {
			write, suffix = r.writeZip, ".zip"
		}
		if err := add(base+suffix, func(path string) error { return write(path, base, b) }); err != nil {
			return err
		}
		if err := add(base+".cdx.json", func(path string) error { return r.writeBill(path, b) }); err != nil {
			return err
		}
	}
	if err := add(product+"_"+r.version+"_image.tar", func(path string) error { return r.writeImage(path, built) }); err != nil {
		return err
	}
	return writeSums(r.out, files)
}

// findBinaries finds GOOS_GOARCH/mainstay in dir, in order of the platforms.
func findBinaries(dir string) ([]binary, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*_*", product+"*"))
	if err != nil {
		return nil, err
	}
	var found []binary
	for _, path := range paths {
		os, arch, _ := strings.Cut(filepath.Base(filepath.Dir(path)), "_")
		found = append(found, binary{os: os, arch: arch, path: path})
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("there are no binaries in %s", dir)
	}
	slices.SortFunc(found, func(a, b binary) int { return cmp.Compare(a.platform(), b.platform()) })
	return found, nil
}

// writeSums writes SHA256SUMS, which sha256sum -c reads.
func writeSums(dir string, files []string) error {
	var sums strings.Builder
	for _, name := range files {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		sum := sha256.Sum256(data)
		fmt.Fprintf(&sums, "%s  %s\n", hex.EncodeToString(sum[:]), name)
	}
	return os.WriteFile(filepath.Join(dir, "SHA256SUMS"), []byte(sums.String()), 0o644)
}
