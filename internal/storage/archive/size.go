package archive

import (
	"strings"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/versionkey"
)

// Sizes returns the estimated size of the versions of each resource on disk, in bytes. Versions
// that have not been flushed do not count. The caller owns the map. Sizes returns kv.ErrClosed after Close,
// or an error of the database.
func (a *Archive) Sizes() (map[string]int64, error) {
	db, err := a.acquire()
	if err != nil {
		return nil, err
	}
	defer a.release()
	return db.sizes(a.prefix)
}

// sizes implements Sizes.
func (db *database) sizes(prefix string) (map[string]int64, error) {
	sizes := map[string]int64{}
	bounds := versionkey.Bounds(prefix, kv.PrefixEnd(prefix))
	it, err := db.NewIter(&bounds)
	if err != nil {
		return nil, db.explain("read the history", err)
	}
	defer it.Close()
	for ok := it.First(); ok; {
		key, _, err := versionkey.Split(it.Key())
		if err != nil {
			return nil, db.explain("read the history", err)
		}
		resource := folderOf(strings.TrimPrefix(string(key), prefix))
		start := prefix + resource + "/"
		from, to := versionkey.AppendBound(nil, start), versionkey.AppendBound(nil, kv.PrefixEnd(start))
		bytes, err := db.EstimateDiskUsage(from, to)
		if err != nil {
			return nil, db.explain("read the history", err)
		}
		sizes[resource] = int64(bytes)
		ok = it.SeekGE(to)
	}
	return sizes, db.explain("read the history", it.Error())
}

// folderOf returns the resource of a key without its prefix: the first segment, or the first two
// segments if the first one is an API group.
func folderOf(rest string) string {
	first, more, ok := strings.Cut(rest, "/")
	if !ok || !strings.Contains(first, ".") {
		return first
	}
	second, _, _ := strings.Cut(more, "/")
	return first + "/" + second
}
