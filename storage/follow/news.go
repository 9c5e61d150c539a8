package follow

// News tells what is new, where changes of objects come in two ways: from a
// Follower, in order, and from those who write them, so that whoever has
// written an object finds it in effect. Reports of writes come in any order, and
// before or after the Follower's. Of each object, the newest state counts.
//
// The zero value knows of nothing. It is used under the lock of what it is for.
type News struct {
	// reached is the revision that the Follower has come to.
	reached int64
	// ahead are the revisions of the newest writes that the Follower has not
	// come to, by name.
	ahead map[string]int64
}

// Written tells whether the write or deletion of an object that gave it, or
// ended it at, a revision is news. It is for whoever reports writes.
func (n *News) Written(name string, revision int64) bool {
	if revision <= n.reached || revision <= n.ahead[name] {
		return false
	}
	if n.ahead == nil {
		n.ahead = map[string]int64{}
	}
	n.ahead[name] = revision
	return true
}

// Followed is Written for what the Follower tells: of an object in a list, its
// revision; of one that is missing there, the list's.
func (n *News) Followed(name string, revision int64) bool {
	n.reached = max(n.reached, revision)
	written, ahead := n.ahead[name]
	if ahead && written <= revision {
		delete(n.ahead, name)
	}
	return written < revision
}

// Replaced notes that a list of a revision was taken in: of what was written
// until then, there is nothing more to come.
func (n *News) Replaced(revision int64) {
	n.reached = max(n.reached, revision)
	for name, written := range n.ahead {
		if written <= revision {
			delete(n.ahead, name)
		}
	}
}
