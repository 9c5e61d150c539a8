package reflector

// VersionTracker detects outdated reports of changes. A Reflector reports all changes in order of revisions.
// A storage.Observer also reports the writes of this server before they return. Writers report in any order,
// before or after the Reflector. For each object, only the report with the greatest revision is valid.
//
// The zero value is ready to use. It is not safe for concurrent use.
type VersionTracker struct {
	// reflected is the revision that the Reflector has reached.
	reflected int64
	// written contains, by name, the newest revision that writers have reported and the Reflector has not
	// reached.
	written map[string]int64
}

// Written records a write or deletion of an object by this server. It reports whether the revision is greater
// than the revisions of all earlier reports of the object.
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

// Reflected records a report of the Reflector, and returns the same result as Written. For an object in a list, revision
// is the revision of the object; for an object that is missing from a list, it is the revision of the list.
func (t *VersionTracker) Reflected(name string, revision int64) bool {
	t.reflected = max(t.reflected, revision)
	written, ahead := t.written[name]
	if ahead && written <= revision {
		delete(t.written, name)
	}
	return written < revision
}

// Replaced records that all objects of a list were reported. Later reports of writers up to the revision of
// the list are outdated.
func (t *VersionTracker) Replaced(revision int64) {
	t.reflected = max(t.reflected, revision)
	for name, written := range t.written {
		if written <= revision {
			delete(t.written, name)
		}
	}
}
