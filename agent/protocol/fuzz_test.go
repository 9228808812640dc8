package protocol

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"
	"time"
)

// wires makes one of every message that travels.
func wires() []any {
	return []any{
		&JoinRequest{}, &JoinResponse{}, &Heartbeat{}, &HeartbeatResponse{}, &TaskBody{},
		&TaskResult{}, &ReportsBody{}, &ReportResponse{}, &ErrorBody{},
	}
}

// Whatever arrives, decoding it ends well or with ErrInvalid, and what was understood says
// the same when it is sent on.
func FuzzWire(f *testing.F) {
	code := 3
	for i, v := range []any{
		JoinRequest{Token: "zoojoin_x", Host: HostInfo{CPUs: 1.5, Labels: map[string]string{"a": "b"}, Backends: []BackendInfo{{Name: "podman"}}}},
		JoinResponse{HostID: "hst_1", AgentToken: "t", HeartbeatInterval: 30},
		Heartbeat{Usage: []RunnerUsage{{RunnerID: "run_1", At: time.Unix(1, 0).UTC()}}},
		HeartbeatResponse{HeartbeatInterval: 0.5, Cordoned: true},
		TaskBody{Task: &Task{ID: "tsk_1", Kind: TaskCreate, Create: &CreateRunner{Env: map[string]string{"A": ""}, Registration: &Registration{}}}},
		TaskResult{TaskID: "tsk_1", StartedAt: time.Unix(1, 0).UTC()},
		ReportsBody{Reports: []RunnerReport{{RunnerID: "run_1", ExitCode: &code}}},
		ReportResponse{Finished: []string{"run_1"}},
		ErrorBody{Code: codeConflict, Message: "no"},
	} {
		data, err := json.Marshal(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(i), data)
	}
	f.Add(uint8(4), []byte(`{"task":{"attempt":1e400}}`))
	f.Add(uint8(3), []byte(`{"heartbeat_interval_s":1e308}`))
	f.Fuzz(func(t *testing.T, which uint8, data []byte) {
		v := wires()[int(which)%len(wires())]
		if err := Decode(bytes.NewReader(data), v); err != nil {
			if !errors.Is(err, ErrInvalid) {
				t.Fatalf("%v is no ErrInvalid", err)
			}
			return
		}
		out, err := json.Marshal(v)
		if err != nil {
			t.Fatalf("cannot send on what was understood: %v", err)
		}
		again := reflect.New(reflect.TypeOf(v).Elem()).Interface()
		if err := json.Unmarshal(out, again); err != nil {
			t.Fatal(err)
		}
		twice, err := json.Marshal(again)
		if err != nil || !bytes.Equal(out, twice) {
			t.Errorf("%s became %s (%v)", out, twice, err)
		}
	})
}

// FuzzRequest sends any bytes at every route: nothing but the shared statuses comes back.
func FuzzRequest(f *testing.F) {
	f.Add(uint8(0), "Bearer x", "hst_1", "1", []byte(`{}`))
	f.Add(uint8(2), "bearer ", "", "NaN", []byte(``))
	f.Add(uint8(5), "Basic x", "h", "-1", []byte{0})
	h := Handler(nobody{})
	f.Fuzz(func(t *testing.T, which uint8, auth, host, wait string, body []byte) {
		routes := []struct{ method, path string }{
			{"POST", PathJoin}, {"POST", PathHeartbeat}, {"GET", PathTasks}, {"POST", PathResult}, {"POST", PathReports}, {"POST", PathLogs + "s"},
		}
		rt := routes[int(which)%len(routes)]
		r := httptest.NewRequest(rt.method, rt.path, bytes.NewReader(body))
		r.URL.RawQuery = QueryWait + "=" + wait
		r.Header.Set("Authorization", auth)
		r.Header.Set(HeaderHost, host)
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		switch w.Code {
		case http.StatusOK, http.StatusUnauthorized, http.StatusBadRequest:
		default:
			t.Errorf("%s %s answered %d", rt.method, rt.path, w.Code)
		}
		if !json.Valid(w.Body.Bytes()) {
			t.Errorf("the answer is no JSON: %q", w.Body)
		}
	})
}
