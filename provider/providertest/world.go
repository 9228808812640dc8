package providertest

import (
	"time"

	"github.com/zoomies-fleet/zoomies/provider"
)

// World is what is behind a provider, for one case. A nil func is a knob that this world lacks: the cases that turn it are skipped.
type World struct {
	Fleet string // whose marks the provider knows
	// Shape is what machines are made of, and Image what they are made from; it is there already.
	Shape provider.Shape
	Image provider.Image
	// Connect returns a new Provider value of this world: the controller after a restart.
	Connect func() provider.Provider
	// Pass lets so much time pass. A world with a real clock waits, and may wait for less.
	Pass func(d time.Duration)

	// What really is there.

	// Things are all machines and images, ours and others', whatever the provider's credential may see.
	Things func() []Thing
	// Secrets are the contents of the config drives that lie about, in use or not; blank ones are left out.
	Secrets func() []string
	// Touched describes the changes so far that were made to what did not belong to the machine that was asked for. Nil when the world keeps
	// no account of it; the suite then compares what others have before and after.
	Touched func() []string

	// What happens behind the provider's back.

	// Put puts a thing there, over whatever has its identity: with the Mark of f written the provider's way, or none.
	Put func(f provider.Found)
	// Vanish deletes what has an identity, and leaves its drive.
	Vanish func(id string)
	// Blind says that the credential may not read what Put puts there without a mark of the fleet. A provider then cannot tell a stranger
	// from what is half made, and says ErrLocked of both.
	Blind bool
	// Outside is an identity that is not of the fleet's range.
	Outside string
	// Leave puts what a worker that died left of m's making: it has no readable mark, and is locked for ever.
	Leave func(m provider.Machine)
	// Unmark takes a thing's mark away.
	Unmark func(id string)
	// Protect makes a thing undeletable, or deletable again.
	Protect func(id string, on bool)
	// Lock locks a thing, or unlocks it with an empty word.
	Lock func(id, why string)
	// PowerOff is the guest powering itself off.
	PowerOff func(id string)
	// Move migrates a thing to some other zone, which it returns.
	Move func(id string) (zone string)

	// What goes wrong.

	// Break breaks one request that the provider makes, the nth from now (0 is the next). hit says whether it has come to that.
	Break func(n int, how Loss) (hit func() bool)
	// Deny takes all of the credential's rights away, as when a token is revoked, or gives them back.
	Deny func(on bool)
	// Fill leaves nothing for Allocate to choose, or makes room again; FillMake leaves no room where a machine was to be made.
	Fill, FillMake func(on bool)
	// Freeze keeps the world's listing as it is now.
	Freeze func()
	// FailMake has the next making of a machine come to nothing after it has begun; DieMake leaves half of one, locked for ever.
	FailMake, DieMake func()
	// Forget has nobody know the operations that have ended any more.
	Forget func()

	// Images are images with files, for a provider that is an Imager: at least two, none of them there yet.
	Images []provider.Image
}

// Loss is how a request is broken.
type Loss string

// Losses.
const (
	NotSent    Loss = "the request is turned away"
	LostBefore Loss = "the request is lost, which looks like a lost answer"
	LostAfter  Loss = "the answer is lost"
	Slow       Loss = "the answer takes a minute"
	Hang       Loss = "no answer ever comes" // until the case is over
)

// Thing is a resource as it really is.
type Thing struct {
	provider.Found // Mark is nil while nobody could read it

	// State is everything else that a change would change, in any form that compares.
	State string
	// Booted is the config drive of its first power-on; nil when there was none or the world does not keep it.
	Booted []byte
}
