package fairqueue

// MaxHandSize is the maximum number of queues in a hand. API validation limits the number of
// possible hands to 2⁶⁰, which allows hands of at most 19 queues.
const MaxHandSize = 32

// deal fills hand with distinct cards from 0 to deck-1. The hash determines the cards; all hands
// are equally likely. deck must be at least len(hand).
func deal(hash uint64, deck int, hand []int) {
	var dealt [MaxHandSize]int // in ascending order
	for i := range hand {
		left := uint64(deck - i)
		card := int(hash % left)
		hash /= left
		// card is an index among the remaining cards, so skip the cards that have been dealt before.
		at := 0
		for at < i && dealt[at] <= card {
			card++
			at++
		}
		copy(dealt[at+1:i+1], dealt[at:i])
		dealt[at], hand[i] = card, card
	}
}
