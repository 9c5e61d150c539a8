// Command release creates the files of a release from built binaries: an archive and a software
// bill of materials for each platform, a container image, and the checksums of all files. The
// output is reproducible. .ci/release builds the binaries and runs this command.
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

// product is the name of the program and the prefix of the names of the release files.
const product = "mainstay"

func main() {
	r := release{}
	var seconds int64
	flag.StringVar(&r.version, "version", "", "version, which is part of the file names")
	flag.StringVar(&r.binaries, "binaries", "", "directory of the binaries, GOOS_GOARCH/mainstay")
	flag.StringVar(&r.out, "out", "", "directory to write to")
	flag.Int64Var(&seconds, "time", 0, "time of the release, in seconds since 1970")
	flag.Parse()
	r.time, r.extra = time.Unix(seconds, 0).UTC(), flag.Args()
	if err := r.write(); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// release contains the arguments of the command.
type release struct {
	version, binaries, out string
	time                   time.Time
	extra                  []string // additional files for each archive
}

// binary is a built program for one platform.
type binary struct {
	os, arch string
	path     string
}

// base returns the file name of the program.
func (b binary) base() string { return filepath.Base(b.path) }

func (b binary) platform() string { return b.os + "_" + b.arch }

// write writes all files of the release.
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
			return fmt.Errorf("create %s: %w", name, err)
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
		if err := add(base+".cdx.json", func(path string) error { return r.writeSBOM(path, b) }); err != nil {
			return err
		}
	}
	if err := add(product+"_"+r.version+"_image.tar", func(path string) error { return r.writeImage(path, built) }); err != nil {
		return err
	}
	return writeSums(r.out, files)
}

// findBinaries returns the files GOOS_GOARCH/mainstay in dir, sorted by platform.
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

// writeSums writes SHA256SUMS in the format of sha256sum -c.
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
