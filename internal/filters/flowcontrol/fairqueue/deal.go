package fairqueue

// MaxHandSize is the most queues that a flow is dealt. The API's bound on the number
// of hands, 2⁶⁰, allows no more than 19 of them.
const MaxHandSize = 32

// deal deals distinct cards of a deck, chosen by a hash, into hand: each hand is as
// likely as any other. The deck must hold as many.
func deal(hash uint64, deck int, hand []int) {
	var dealt [MaxHandSize]int // in ascending order
	for i := range hand {
		left := uint64(deck - i)
		card := int(hash % left)
		hash /= left
		// card is an index among the remaining cards: skip the cards dealt before.
		at := 0
		for at < i && dealt[at] <= card {
			card++
			at++
		}
		copy(dealt[at+1:i+1], dealt[at:i])
		dealt[at], hand[i] = card, card
	}
}
