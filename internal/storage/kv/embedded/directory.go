package embedded

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/pebblefs"
)

// creatingFile is the name of a file that exists during the creation of a store. A directory with this file
// contains no acknowledged data.
const creatingFile = "CREATING"

// restoringFile is the name of a file that exists while Restore runs.
const restoringFile = "RESTORING"

// prepare reports whether a store must be created in the directory. It returns an error for a
// damaged or incomplete store, which must not be replaced by an empty one.
func (d *disk) prepare() (isNew bool, err error) {
	names, err := d.fs.List(d.dir)
	if err != nil {
		return false, fmt.Errorf("list data directory %s: %w", d.dir, err)
	}
	has := make(map[string]bool, len(names))
	leftovers := ""
	for _, name := range names {
		has[name] = true
		if engineFile(name) {
			leftovers = name
		}
	}
	switch {
	case has[restoringFile]:
		return false, fmt.Errorf("data directory %s contains an incomplete restore: empty it and restore again", d.dir)
	case has[creatingFile]:
		return true, d.removeDatabase()
	case leftovers == "" && has[ackFileName]:
		return false, explain("open the store", d.dir, fmt.Errorf("%s exists without a database: %w", ackFileName, kv.ErrCorrupt))
	case leftovers == "":
		return true, d.createMarker(creatingFile)
	}
	desc, err := pebble.Peek(d.dir, d.fs)
	if err != nil {
		return false, d.wrapOpenError(pebblefs.New(d.fs), err)
	}
	if !desc.Exists {
		return false, explain("open the store", filepath.Join(d.dir, "marker.manifest.*"),
			fmt.Errorf("there is %s but no manifest: %w", leftovers, kv.ErrCorrupt))
	}
	return false, nil
}

// engineFile reports whether a file in the directory belongs to Pebble.
func engineFile(name string) bool {
	for _, ext := range []string{".sst", ".log", ".dbtmp", ".blob"} {
		if strings.HasSuffix(name, ext) {
			return true
		}
	}
	for _, prefix := range []string{"MANIFEST-", "OPTIONS-", "marker.", "CURRENT"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// createMarker creates an empty file durably.
func (d *disk) createMarker(name string) error {
	f, err := d.fs.Create(filepath.Join(d.dir, name), vfs.WriteCategoryUnspecified)
	if err != nil {
		return explain("write to data directory "+d.dir, d.dir, err)
	}
	if err := errors.Join(f.Close(), pebblefs.SyncDir(d.fs, d.dir)); err != nil {
		return explain("write to data directory "+d.dir, d.dir, err)
	}
	return nil
}

func (d *disk) removeMarker(name string) error {
	if err := errors.Join(d.fs.Remove(filepath.Join(d.dir, name)), pebblefs.SyncDir(d.fs, d.dir)); err != nil {
		return explain("write to data directory "+d.dir, d.dir, err)
	}
	return nil
}

// Claim durably marks dir, if it contains no store, as the directory of a new store. A server claims the
// directory before it writes other files, such as keys. If these files exist without a claim and without a
// store, the store was lost. Claim returns the errors of the file system.
func Claim(dir string) error {
	if there, err := Exists(dir); err != nil || there {
		return err
	}
	return claim(Config{Dir: dir})
}

func claim(cfg Config) error {
	d, err := newDisk(cfg)
	if err != nil {
		return err
	}
	if err := d.lock(); err != nil {
		return err
	}
	return errors.Join(d.createMarker(creatingFile), d.unlock())
}
