package api_test

import (
	"runtime"
	"testing"

	"github.com/zoomies-fleet/zoomies/controller/api"
	"github.com/zoomies-fleet/zoomies/controller/auth"
)

// What one idle subscriber may cost in this process, in bytes: the server's side and the test's. A thousand then stay below 100 MB;
// the benchmark measures what it really is.
const subscriberBytes = 64 << 10

// It runs alone: others would be measured, too.
func TestAnIdleSubscriberCostsLittle(t *testing.T) { //nolint:paralleltest // see above
	const n = 400
	r := newRigWith(t, func(o *api.Options) { o.Streams = api.Streams{Each: n} })
	ada := r.as("ada", over(auth.Viewer))
	r.silent(ada) // what is made once is not the subscribers'
	before := inUse()
	for range n - 1 {
		r.silent(ada)
	}
	each := (inUse() - before) / (n - 1)
	t.Logf("%d bytes for each of %d subscribers", each, n)
	if each > subscriberBytes {
		t.Errorf("an idle subscriber costs %d bytes, and %d are allowed", each, subscriberBytes)
	}
	if each < 1024 {
		t.Errorf("an idle subscriber costs %d bytes, which is not to be believed", each)
	}
}

// inUse is what heap and stacks hold once what nobody needs is gone.
func inUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
