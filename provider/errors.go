package provider

import "errors"

// Classes of errors. Every error of a Provider is one of them (errors.Is), and a caller branches on nothing else.
var (
	// ErrNotFound: it is proved that nothing is there.
	ErrNotFound = errors.New("it does not exist")
	// ErrLocked: something else works on it. Again later.
	ErrLocked = errors.New("it is locked")
	// ErrConflict: the state there does not allow it, such as an identity that is taken.
	ErrConflict = errors.New("its state does not allow this")
	// ErrForeign: what is there does not carry the machine's mark. It was not touched.
	ErrForeign = errors.New("it is not ours")
	// ErrDenied: the credential may not do this.
	ErrDenied = errors.New("the credential may not do this")
	// ErrInvalid: the request is wrong, and will be however often it is made.
	ErrInvalid = errors.New("the request is not acceptable")
	// ErrQuota: there is no identity or no room left.
	ErrQuota = errors.New("there is no room")
	// ErrTransient: the request had no effect, since it was never sent, was turned away, or only reads. Again later.
	ErrTransient = errors.New("it could not be asked")
	// ErrUnknownOutcome: the request was sent and what became of it is not known. Inspect before anything else.
	ErrUnknownOutcome = errors.New("what became of it is not known")
)

// classes stand with the most careful first. An error that joins several counts as the first of them: a delete whose answer was lost must not
// count as proof of absence because something else in it was not found.
var classes = []error{
	ErrUnknownOutcome, ErrForeign, ErrLocked, ErrDenied, ErrConflict, ErrInvalid, ErrQuota, ErrTransient, ErrNotFound,
}

// Class returns the class of an error of a provider: one of this package's, ErrUnknownOutcome for an error that has none, nil for nil.
func Class(err error) error {
	if err == nil {
		return nil
	}
	for _, class := range classes {
		if errors.Is(err, class) {
			return class
		}
	}
	return ErrUnknownOutcome
}
