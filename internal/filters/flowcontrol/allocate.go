package flowcontrol

import "slices"

// seatBounds is the minimum, maximum and target number of seats of a level.
type seatBounds struct{ lower, upper, target float64 }

// minTarget replaces a target of 0, so that an idle level still receives its share of unused seats.
const minTarget = 0.001

// seatsAt returns the seats of a level that receives a fraction of its target, within its bounds.
func (b *seatBounds) seatsAt(fraction float64) float64 {
	return min(b.upper, max(b.lower, fraction*max(b.target, minTarget)))
}

// allocate distributes sum among levels. Each level receives the same fraction of its target, but at least
// its minimum and at most its maximum, even if the total then differs from sum. allocate also returns the
// fraction.
func allocate(sum float64, levels []seatBounds) (seats []float64, fraction float64) {
	total := func(fraction float64) (all float64) {
		for i := range levels {
			all += levels[i].seatsAt(fraction)
		}
		return all
	}
	// The total is a piecewise linear function of the fraction. The slope changes where a level
	// leaves its lower bound or reaches its upper bound.
	var breakpoints []float64
	for _, b := range levels {
		breakpoints = append(breakpoints, b.lower/max(b.target, minTarget), b.upper/max(b.target, minTarget))
	}
	slices.Sort(breakpoints)
	for _, next := range breakpoints {
		current, reached := total(fraction), total(next)
		if reached >= sum {
			if reached > current {
				fraction += (next - fraction) * max(0, sum-current) / (reached - current)
			}
			break
		}
		fraction = next
	}
	for i := range levels {
		seats = append(seats, levels[i].seatsAt(fraction))
	}
	return seats, fraction
}
