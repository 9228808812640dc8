package api

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/zoomies-fleet/zoomies/controller/auth"
)

// frame is one numbered message to those who follow events. Its text is made once, for everybody.
type frame struct {
	n      uint64
	guard  *auth.Guard
	target auth.Target
	text   []byte
	shared *shared // instead of target and text, when what is shown depends on who looks
}

// viewer is who follows. Those of one class see the same.
type viewer struct {
	who   auth.Principal
	class string
}

func viewerOf(who auth.Principal) viewer {
	raw, _ := json.Marshal([]any{who.Grants, who.Owner, who.Scopes}) // plain values
	return viewer{who, string(raw)}
}

// sees says whether the viewer is shown a frame that is the same for all.
func (v viewer) sees(f *frame) bool { return v.who.Can(f.guard.Role, f.guard.Area, false, f.target) }

// shared is something computed, of which the newest alone counts: the problems, or the status. It is rendered once for each class of
// viewers, when the first of them gets to it.
type shared struct {
	name  string
	guard *auth.Guard
	class func(viewer) string

	mu      sync.Mutex
	version uint64
	make    func(context.Context, viewer) (any, error)
	texts   map[string][]byte
}

// set replaces what is shared.
func (x *shared) set(version uint64, show func(context.Context, viewer) (any, error)) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.version, x.make, x.texts = version, show, map[string][]byte{}
}

// body is what a viewer is shown, as the GET route shows it, and the number of the frame that told of it first.
func (x *shared) body(ctx context.Context, v viewer) (uint64, []byte, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	class := x.class(v)
	text, ok := x.texts[class]
	if ok || x.make == nil {
		return x.version, text, nil
	}
	view, err := x.make(ctx, v)
	if err != nil {
		return x.version, nil, err
	}
	if text, err = bodyOf(view); err == nil {
		x.texts[class] = text
	}
	return x.version, text, err
}

// messageOf is a message of server-sent events. The body is one line.
func messageOf(name, id string, body []byte) []byte {
	out := make([]byte, 0, len("event: \nid: \ndata: \n\n")+len(name)+len(id)+len(body))
	out = append(append(out, "event: "...), name...)
	out = append(append(out, "\nid: "...), id...)
	out = append(append(out, "\ndata: "...), body...)
	return append(out, "\n\n"...)
}
