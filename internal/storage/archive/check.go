package archive

import (
	"context"
	"errors"
	"os"
	"time"

	"mainstay.dev/mainstay/internal/storage/kv"
)

// Report is the result of Check for an intact archive.
type Report struct {
	// Position is the newest archived revision; 0 if there is no archive.
	Position kv.Revision
	// Oldest is the time of the oldest state.
	Oldest time.Time
	// Keys and Versions are the numbers of keys and versions.
	Keys, Versions int64
	// Sizes are the estimated sizes on disk, in bytes, by resource.
	Sizes map[string]int64
}

// Check reads all versions of the archive in a directory that no server uses. An error that wraps
// kv.ErrCorrupt describes the first damage. If the directory does not exist, the report is empty.
func Check(ctx context.Context, config Config) (report Report, err error) {
	err = withExisting(config, func(a *Archive, db *database) error { return report.read(ctx, a, db) })
	return report, err
}

// withExisting calls work with the archive in a directory that no server uses. It does nothing if the
// directory does not exist.
func withExisting(config Config, work func(*Archive, *database) error) (err error) {
	if _, err := os.Stat(config.Dir); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	a, err := Open(config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	db, err := a.acquire()
	if err != nil {
		return err
	}
	defer a.release()
	return work(a, db)
}

// read reads all data of an archive.
func (r *Report) read(ctx context.Context, a *Archive, db *database) error {
	if err := db.CheckLevels(nil); err != nil {
		return db.explain("check the history", err)
	}
	err := a.eachKey(db, func(key string) error {
		r.Keys++
		return a.versions(ctx, db, key, func(*version) bool { r.Versions++; return true })
	})
	if err != nil {
		return err
	}
	if err := db.each(prefixChange, func(key, value []byte) error {
		_, err := decodeChange(key, value)
		return err
	}); err != nil {
		return err
	}
	if r.Position = a.Position(); r.Position > 0 {
		r.Oldest = a.oldest().time
	}
	r.Sizes, err = db.sizes(a.prefix)
	return err
}
