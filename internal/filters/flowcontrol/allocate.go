package flowcontrol

import "slices"

// want is what a level may have and wants of seats that are shared.
type want struct{ lower, upper, target float64 }

// minTarget stands for the target of who wants nothing, which still gets its part of
// what nobody wants.
const minTarget = 0.001

// at returns what a level is given where each gets the same part of its target,
// within its bounds.
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
	// What is given in all grows with the part, in straight lines between the parts at
	// which somebody leaves the lower bound or comes to the upper.
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
