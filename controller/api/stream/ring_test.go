package stream_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/zoomies-fleet/zoomies/controller/api/stream"
)

func push(r *stream.Ring[uint64], size int) {
	r.Append(func(n uint64) (uint64, int) { return n, size })
}

func read(r *stream.Ring[uint64], from uint64, most int) ([]uint64, stream.Read) {
	buf := make([]uint64, most)
	got := r.Read(from, buf)
	return buf[:got.N], got
}

func TestReadersGoAtTheirOwnPace(t *testing.T) {
	t.Parallel()
	r := stream.NewRing[uint64]("e", 4, 1000)
	_, first := read(r, 1, 8)
	select {
	case <-first.More:
		t.Fatal("there is more in an empty ring")
	default:
	}
	for range 3 {
		push(r, 1)
	}
	<-first.More
	if got, _ := read(r, 2, 8); !slices.Equal(got, []uint64{2, 3}) {
		t.Errorf("read %v", got)
	}
	if got, _ := read(r, 1, 2); !slices.Equal(got, []uint64{1, 2}) {
		t.Errorf("read %v", got)
	}
	push(r, 1)
	push(r, 1) // 1 is gone
	if _, got := read(r, 1, 8); !got.Lost {
		t.Errorf("a reader that fell behind is not told: %+v", got)
	}
	if got, _ := read(r, 2, 8); !slices.Equal(got, []uint64{2, 3, 4, 5}) {
		t.Errorf("read %v", got)
	}
	push(r, 999) // room for one other
	if got, _ := read(r, 5, 8); !slices.Equal(got, []uint64{5, 6}) {
		t.Errorf("bounded by bytes: read %v", got)
	}
	push(r, 5000)
	if got, _ := read(r, 7, 8); !slices.Equal(got, []uint64{7}) {
		t.Errorf("the newest is kept: read %v", got)
	}
	r.Close()
	r.Close()
	if got, info := read(r, 7, 8); len(got) != 1 || !info.Over {
		t.Errorf("closed: %v %+v", got, info)
	}
}

func TestPositions(t *testing.T) {
	t.Parallel()
	r := stream.NewRing[uint64]("e", 2, 1000)
	for range 5 {
		push(r, 1)
	}
	for id, want := range map[string]uint64{"e-3": 4, "e-4": 5, "e-5": 6} {
		if n, ok := r.After(id); !ok || n != want {
			t.Errorf("after %s: %d %v", id, n, ok)
		}
	}
	for _, id := range []string{"e-2", "e-6", "f-4", "", "e", "-1", "e-", "e-x", "e--1", "e-99999999999999999999", "e-18446744073709551615"} {
		if n, ok := r.After(id); ok {
			t.Errorf("after %q: %d", id, n)
		}
	}
	if r.ID(3) != "e-3" || r.Next() != 6 {
		t.Errorf("ID %s, next %d", r.ID(3), r.Next())
	}
}

// However messages come, a reader gets each once and in order, or is told that it lost some.
func TestNothingIsSkippedProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		count, bytes := rapid.IntRange(1, 200).Draw(t, "count"), rapid.IntRange(1, 500).Draw(t, "bytes")
		r := stream.NewRing[uint64]("e", count, bytes)
		at, written := uint64(1), uint64(0)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			for range rapid.IntRange(0, 80).Draw(t, "writes") {
				push(r, rapid.IntRange(0, 50).Draw(t, "size"))
				written++
			}
			got, info := read(r, at, rapid.IntRange(1, 50).Draw(t, "reads"))
			if info.Lost {
				at = r.Next()
				continue
			}
			for _, n := range got {
				if n != at {
					t.Fatalf("got %d, want %d", n, at)
				}
				at++
			}
			if len(got) == 0 && at != written+1 {
				t.Fatalf("nothing to read at %d of %d", at, written)
			}
		}
	})
}

func FuzzParseID(f *testing.F) {
	f.Add("abc-12")
	f.Add("-")
	f.Fuzz(func(t *testing.T, id string) {
		epoch, n, err := stream.ParseID(id)
		if err != nil {
			return
		}
		if again, m, err := stream.ParseID(stream.ID(epoch, n)); err != nil || again != epoch || m != n {
			t.Errorf("%q is %s and %d, and then %s and %d: %v", id, epoch, n, again, m, err)
		}
	})
}
