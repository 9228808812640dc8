package providertest_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/zoomies-fleet/zoomies/provider"
	"github.com/zoomies-fleet/zoomies/provider/fake"
	"github.com/zoomies-fleet/zoomies/provider/providertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestFake holds the fake to the contract: at once, where everything takes time and the list lags, and where the
// credential sees no more than it must.
func TestFake(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]fake.Options{"quick": {}, "slow": slow, "blind": blind} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			providertest.Run(t, harness(o, func(w *fake.World) provider.Provider { return w.Provider() }))
		})
	}
}

var slow = fake.Options{
	Zones: []string{"z1", "z2", "z3"}, Lag: 20 * time.Second,
	Took: map[fake.Request]time.Duration{
		fake.Make: 30 * time.Second, fake.Start: 3 * time.Second, fake.Stop: 20 * time.Second, fake.Destroy: 7 * time.Second, fake.Import: time.Minute,
	},
}

var blind = fake.Options{Blind: true, Took: slow.Took, Lag: time.Second}

func file(text string) provider.Image {
	sum := sha256.Sum256([]byte(text))
	return provider.Image{
		SHA256: hex.EncodeToString(sum[:]), Name: text, Size: int64(len(text)),
		Open: func() (io.ReadSeekCloser, error) { return closer{bytes.NewReader([]byte(text))}, nil },
	}
}

type closer struct{ io.ReadSeeker }

func (closer) Close() error { return nil }

// harness is the fake's: connect may make a provider of its world that is wrong on purpose.
func harness(o fake.Options, connect func(w *fake.World) provider.Provider) providertest.Harness {
	return providertest.Harness{New: func(t providertest.T) providertest.World {
		w := fake.NewWorld(o)
		base := file("the base image")
		if _, err := w.Import(t.Context(), base.SHA256, "zoomies-image-base"); err != nil {
			t.Fatalf("%v", err)
		}
		w.Advance(time.Hour)
		hang := make(chan struct{})
		t.Cleanup(func() { close(hang) })
		return providertest.World{
			Fleet: w.Fleet(), Blind: o.Blind, Shape: provider.Shape{Name: "small", CPUs: 2, MemoryMB: 2048, DiskGB: 10}, Image: base,
			Connect: func() provider.Provider { return connect(w) },
			Pass:    w.Advance,
			Things:  func() []providertest.Thing { return things(w) },
			Secrets: func() (out []string) {
				for _, content := range w.Drives() {
					out = append(out, string(content))
				}
				return out
			},
			Touched: func() (out []string) {
				for _, m := range w.ForeignTouched() {
					out = append(out, fmt.Sprintf("%s of %s (%s) by %s", m.Request, m.ID, m.Name, m.By.Machine))
				}
				return out
			},
			Put: w.Put, Vanish: w.Vanish, Outside: "77", Leave: w.Leave, Unmark: w.Unmark, Protect: w.Protect, Lock: w.Lock, PowerOff: w.PowerOff,
			Move: func(id string) string {
				zones := append([]string{"z1"}, o.Zones...)
				w.Move(id, zones[len(zones)-1])
				return zones[len(zones)-1]
			},
			Break: func(n int, how providertest.Loss) func() bool {
				return w.BreakNth(n, map[providertest.Loss]fake.Fault{
					providertest.NotSent: fake.NotSent, providertest.LostBefore: fake.LostBefore, providertest.LostAfter: fake.LostAfter,
					providertest.Slow: {Delay: time.Minute}, providertest.Hang: {Hold: hang},
				}[how])
			},
			Deny: func(on bool) {
				if w.Mend(); on {
					w.Deny()
				}
			},
			Fill:     w.Fill,
			FillMake: w.Fill,
			Freeze:   w.Freeze,
			FailMake: func() { w.FailNext(fake.Make, provider.ErrLocked) },
			DieMake:  func() { w.DieNext(fake.Make) },
			Forget:   w.Forget,
			Images:   []provider.Image{file("one"), file("two")},
		}
	}}
}

func things(w *fake.World) []providertest.Thing {
	var out []providertest.Thing
	for _, t := range w.Things() {
		flat := t.Found
		flat.Mark = nil
		state := fmt.Sprintf("%d, made from %q as %+v, booted %d times: %+v", t.Serial, t.Image, t.Shape, t.Boots, flat)
		out = append(out, providertest.Thing{Found: t.Found, State: state, Booted: t.Booted})
	}
	return out
}
