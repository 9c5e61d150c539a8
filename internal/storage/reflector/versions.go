package reflector

// VersionTracker drops stale reports of objects that are reported twice: by a
// Reflector, in order of revisions, and by the writers of this server, through
// a storage.Observer, so that a write is in effect before it returns. Reports of
// writers come in any order, and before or after the Reflector's. Of each
// object, the report with the greatest revision counts.
//
// The zero value is ready to use. It is not safe for concurrent use: the lock of
// the state that it protects guards it.
type VersionTracker struct {
	// reflected is the revision that the Reflector has reached.
	reflected int64
	// written has, by name, the newest revisions reported by writers that the
	// Reflector has not reached.
	written map[string]int64
}

// Written records the revision at which a writer wrote or deleted an object. It
// reports whether that is newer than all reports of the object so far.
func (t *VersionTracker) Written(name string, revision int64) bool {
	if revision <= t.reflected || revision <= t.written[name] {
		return false
	}
	if t.written == nil {
		t.written = map[string]int64{}
	}
	t.written[name] = revision
	return true
}

// Reflected is Written for reports of the Reflector. The revision of an object
// in a list is the object's; that of one missing from the list is the list's.
func (t *VersionTracker) Reflected(name string, revision int64) bool {
	t.reflected = max(t.reflected, revision)
	written, ahead := t.written[name]
	if ahead && written <= revision {
		delete(t.written, name)
	}
	return written < revision
}

// Replaced records that a list was taken in whole: reports of writers up to its
// revision are stale from then on.
func (t *VersionTracker) Replaced(revision int64) {
	t.reflected = max(t.reflected, revision)
	for name, written := range t.written {
		if written <= revision {
			delete(t.written, name)
		}
	}
}
