package recovered

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/go-chi/chi/v5"
)

// A panic is logged with its stack and answered as a problem. What was sent is in neither, whatever the panic's value is.
func TestPanicIsLoggedAndLeaksNothing(t *testing.T) {
	t.Parallel()
	const secret = "zoojoin_very-secret"
	buf := &logBuffer{}
	router := chi.NewRouter()
	router.Use(Handler(slog.New(slog.NewTextHandler(buf, nil))))
	panics := map[string]any{
		"string": secret, "error": errors.New("cannot use " + secret), "bytes": []byte(secret), "struct": struct{ Token string }{secret},
	}
	for path, v := range panics {
		router.Post("/"+path+"/{id}", func(http.ResponseWriter, *http.Request) { panic(v) })
	}
	router.Post("/runtime/{id}", func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_ = body[len(body)] //nolint:gocritic // it is to panic
	})
	router.Post("/half/{id}", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"half":`)
		w.(http.Flusher).Flush()
		panic(secret)
	})
	router.Post("/abort/{id}", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	router.Post("/fine/{id}", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	srv := httptest.NewUnstartedServer(router)
	srv.Config.ErrorLog = slog.NewLogLogger(slog.NewTextHandler(buf, nil), slog.LevelError)
	srv.Start()
	t.Cleanup(srv.Close)
	post := func(path string) (int, string, error) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL+"/"+path+"/"+secret+"?q="+secret, strings.NewReader(secret))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+secret)
		resp, err := srv.Client().Do(req)
		if err != nil {
			return 0, "", err
		}
		defer func() { _ = resp.Body.Close() }()
		body, err := io.ReadAll(resp.Body)
		if resp.StatusCode == http.StatusInternalServerError && resp.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s was answered as %s", path, resp.Header.Get("Content-Type"))
		}
		return resp.StatusCode, string(body), err
	}
	for path := range panics {
		status, body, err := post(path)
		if err != nil || status != http.StatusInternalServerError || strings.Contains(body, secret) || !strings.Contains(body, `"status":500`) {
			t.Errorf("%s was answered %d %s: %v", path, status, body, err)
		}
		if !strings.Contains(buf.String(), "/"+path+"/{id}") {
			t.Errorf("the log does not name the route of %s", path)
		}
	}
	if status, _, err := post("runtime"); status != http.StatusInternalServerError || err != nil || !strings.Contains(buf.String(), "index out of range") {
		t.Errorf("a runtime error was answered %d: %v", status, err)
	}
	if _, body, err := post("half"); err == nil {
		t.Errorf("half an answer looks like a whole one: %s", body)
	}
	if _, _, err := post("abort"); err == nil {
		t.Error("an abort was answered")
	}
	if status, _, err := post("fine"); status != http.StatusNoContent || err != nil {
		t.Errorf("afterwards: %d, %v", status, err)
	}
	said := buf.String()
	if strings.Contains(said, secret) || !strings.Contains(said, "recovered_test.go") {
		t.Errorf("the log leaks, or has no stack:\n%s", said)
	}
}

// logBuffer is a log that the server's goroutines write and the test reads.
type logBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
