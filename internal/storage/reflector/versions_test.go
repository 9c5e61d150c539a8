package reflector_test

import (
	"testing"

	"mainstay.dev/mainstay/internal/storage/reflector"
)

// TestVersionTracker checks sequences of reports of one object by a Reflector (f), a list (l, which might not
// contain the object) and writers (w).
func TestVersionTracker(t *testing.T) {
	t.Parallel()
	type report struct {
		by       byte
		revision int64
		news     bool
	}
	for name, reports := range map[string][]report{
		"written, then followed":          {{'w', 5, true}, {'f', 5, false}, {'f', 6, true}},
		"followed, then written":          {{'f', 5, true}, {'w', 5, false}, {'w', 6, true}},
		"writes reported the wrong way":   {{'w', 6, true}, {'w', 5, false}, {'f', 5, false}, {'f', 6, false}},
		"another wrote meanwhile":         {{'w', 5, true}, {'f', 5, false}, {'f', 6, true}, {'w', 5, false}},
		"listed without it":               {{'w', 5, true}, {'l', 6, true}, {'w', 6, false}, {'w', 7, true}},
		"written after the list was made": {{'w', 7, true}, {'l', 6, false}, {'f', 7, false}},
		"a write from before the list":    {{'l', 6, true}, {'w', 5, false}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var n reflector.VersionTracker
			for i, r := range reports {
				var got bool
				switch r.by {
				case 'w':
					got = n.Written("a", r.revision)
				case 'f':
					got = n.Reflected("a", r.revision)
				case 'l':
					got = n.Reflected("a", r.revision)
					n.Replaced(r.revision)
				}
				if got != r.news {
					t.Errorf("report %d of revision %d: isNewer is %t", i, r.revision, got)
				}
			}
		})
	}
}
