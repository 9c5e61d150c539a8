package flowcontrol

import "slices"

// want is the minimum, maximum and target number of seats of a level.
type want struct{ lower, upper, target float64 }

// minTarget replaces a target of 0, so that an idle level still gets its share of unused seats.
const minTarget = 0.001

// at returns the seats of a level if every level gets the same fraction of its target, within its
// bounds.
func (w *want) at(part float64) float64 {
	return min(w.upper, max(w.lower, part*max(w.target, minTarget)))
}

// allocate shares a sum out: each gets the same part of its target, but at least
// lower and at most upper, also where the bounds add up to more, or less, than the sum. It
// returns that part, too.
func allocate(sum float64, wants []want) (given []float64, part float64) {
	total := func(part float64) (all float64) {
		for i := range wants {
			all += wants[i].at(part)
		}
		return all
	}
	// The total is a piecewise linear function of the fraction. The slope changes where a level
	// leaves its lower bound or reaches its upper bound.
	var bends []float64
	for _, w := range wants {
		bends = append(bends, w.lower/max(w.target, minTarget), w.upper/max(w.target, minTarget))
	}
	slices.Sort(bends)
	for _, bend := range bends {
		here, there := total(part), total(bend)
		if there >= sum {
			if there > here {
				part += (bend - part) * max(0, sum-here) / (there - here)
			}
			break
		}
		part = bend
	}
	for i := range wants {
		given = append(given, wants[i].at(part))
	}
	return given, part
}
