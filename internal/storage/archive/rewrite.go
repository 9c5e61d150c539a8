package archive

import (
	"context"
	"fmt"
)

// RewriteReport is the result of Rewrite.
type RewriteReport struct {
	// Versions is the number of versions, and Rewritten the number of versions with a new value.
	Versions, Rewritten int64
	// Unreadable describes the first versions for which the function returned an error. These versions were
	// not changed. UnreadableCount is the total number of such versions.
	Unreadable      []string
	UnreadableCount int64
}

// maxUnreadable is the maximum number of versions in RewriteReport.Unreadable.
const maxUnreadable = 10

// Rewrite replaces the values of all versions in an archive, for example to encrypt them with another key,
// and removes the replaced values from its files. No server may use the archive. rewrite returns the new
// value and reports whether it differs; an error leaves the version unchanged. A missing directory has no
// versions. Rewrite can be interrupted and called again.
func Rewrite(ctx context.Context, config Config, rewrite func(key string, value []byte) (next []byte, changed bool, err error)) (report RewriteReport, err error) {
	err = withExisting(config, func(a *Archive, db *database) error {
		r := rewriter{db: db, rewrite: rewrite, report: &report}
		if err := a.eachKey(db, func(key string) error { return r.key(ctx, a, key) }); err != nil {
			return err
		}
		return db.reclaim(ctx)
	})
	return report, err
}

type rewriter struct {
	db      *database
	rewrite func(key string, value []byte) ([]byte, bool, error)
	report  *RewriteReport
}

// key rewrites the versions of a key. If any of them changes, all are stored completely, because a delta
// depends on another value.
func (r *rewriter) key(ctx context.Context, a *Archive, key string) error {
	var versions []version
	changed := false
	err := a.versions(ctx, r.db, key, func(v *version) bool {
		r.report.Versions++
		next, different, err := v.value, false, error(nil)
		if !v.deleted {
			next, different, err = r.rewrite(key, v.value)
		}
		switch {
		case err != nil:
			if r.report.UnreadableCount++; r.report.UnreadableCount <= maxUnreadable {
				r.report.Unreadable = append(r.report.Unreadable, fmt.Sprintf("%s at revision %d: %v", key, v.revision, err))
			}
			next = v.value
		case different:
			r.report.Rewritten++
			changed = true
		}
		rewritten := *v
		rewritten.value = next
		versions = append(versions, rewritten)
		return true
	})
	if err != nil || !changed {
		return err
	}
	return r.write(versions)
}

// write replaces the versions of a key. The newest versions are written first, so that an interruption leaves
// no delta to a replaced value.
func (r *rewriter) write(versions []version) error {
	b := r.db.NewBatch()
	for i := len(versions) - 1; i >= 0; i-- {
		putVersion(b, nil, &versions[i])
		if b.Len() < batchBytes {
			continue
		}
		if err := r.db.apply(b); err != nil {
			return err
		}
		b = r.db.NewBatch()
	}
	return r.db.apply(b)
}
