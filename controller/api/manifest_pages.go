package api

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strconv"

	"github.com/go-chi/chi/v5"

	"github.com/zoomies-fleet/zoomies/controller/github"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// setupPage is one of the small pages that a browser sees on its way through the manifest flow.
type setupPage struct {
	Title, Text, Fix string
	Link, LinkText   string
	Action, Manifest string // of the form that goes to GitHub
	Nonce            string
}

var setupTemplate = template.Must(template.New("setup").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{{.Title}}</title>
<style nonce="{{.Nonce}}">body{font:16px/1.5 system-ui,sans-serif;max-width:40rem;margin:4rem auto;padding:0 1rem}</style></head>
<body><h1>{{.Title}}</h1><p>{{.Text}}</p>
{{with .Fix}}<p><strong>What to do:</strong> {{.}}</p>
{{end}}{{with .Link}}<p><a href="{{.}}">{{$.LinkText}}</a></p>
{{end}}{{with .Action}}<form method="post" action="{{.}}"><input type="hidden" name="manifest" value="{{$.Manifest}}"><button>Go to GitHub</button></form>
<script nonce="{{$.Nonce}}">document.forms[0].submit()</script>
{{end}}</body></html>
`))

// show writes a page. It may load nothing, and send its form nowhere but to that GitHub.
func (s *Server) show(w http.ResponseWriter, status int, p setupPage) {
	p.Nonce = rand.Text()
	forms := "'none'"
	if p.Action != "" {
		forms = "'self' " + origin(p.Action)
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'nonce-"+p.Nonce+"'; script-src 'nonce-"+p.Nonce+"'; form-action "+forms+
		"; base-uri 'none'; frame-ancestors 'none'")
	h.Set("Referrer-Policy", "strict-origin") // GitHub sees who sent the form, and not the state in its address
	w.WriteHeader(status)
	_ = setupTemplate.Execute(w, p) // the client is gone: nothing to do
}

// showError shows why a step of the flow went wrong.
func (s *Server) showError(w http.ResponseWriter, r *http.Request, err error) {
	p := s.fail(r.Context(), requestOf(r.Context()).guard, err)
	if p.Status >= http.StatusInternalServerError {
		p.Fix += " It is " + p.RequestID + "."
	}
	s.show(w, p.Status, setupPage{Title: "GitHub is not connected yet", Text: p.Detail, Fix: p.Fix})
}

// flowOf finds the flow of a page and acts on as who began it. It is nil when the page has been written already.
func (s *Server) flowOf(w http.ResponseWriter, r *http.Request) (*flow, context.Context) {
	x := s.flows.find(chi.URLParam(r, "state"))
	if x == nil {
		s.show(w, http.StatusNotFound, setupPage{
			Title: "This link is not known",
			Text:  "It is more than an hour old, or the controller was restarted since it was made.",
			Fix: "If GitHub has made the App and this fleet lists it (zoomies API, GET /api/v1/github/apps), adopt its installations there: nothing else is missing. " +
				"Otherwise delete the App at GitHub, if there is one, and begin again.",
		})
		return nil, nil
	}
	if who := principal(r.Context()); who.SignedIn() && !sameFlow(who, x.who) {
		s.show(w, http.StatusForbidden, setupPage{
			Title: "This link is somebody else's", Text: "Another user of this fleet began to connect GitHub with it.",
			Fix: "Begin to connect GitHub yourself, or sign out.",
		})
		return nil, nil
	}
	return x, context.WithValue(r.Context(), principalKey{}, x.who)
}

func (s *Server) manifestForm(w http.ResponseWriter, r *http.Request) {
	x, _ := s.flowOf(w, r)
	if x == nil {
		return
	}
	x.mu.Lock()
	app := x.app
	x.mu.Unlock()
	if app != nil {
		s.show(w, http.StatusOK, setupPage{
			Title: "The App has been made", Text: "What is left is to install it on an account.",
			Link: installPage(app.BaseURL, app.HTMLURL), LinkText: "Install " + app.Name,
		})
		return
	}
	s.show(w, http.StatusOK, setupPage{
		Title: "On to GitHub", Text: "GitHub shows what the App may do, and asks whether to make it.",
		Action: x.newAppURL(), Manifest: string(x.manifest),
	})
}

func (s *Server) manifestCreated(w http.ResponseWriter, r *http.Request) {
	x, ctx := s.flowOf(w, r)
	if x == nil {
		return
	}
	q := r.URL.Query()
	if subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(x.state)) != 1 || q.Get("code") == "" {
		s.showError(w, r, problem(http.StatusBadRequest, "GitHub did not send you here: its code, or its word for this attempt, is missing.", "Begin again."))
		return
	}
	a, _, err := s.finish(ctx, x, q.Get("code"))
	if err != nil {
		s.showError(w, r, err)
		return
	}
	page := installPage(a.BaseURL, a.HTMLURL)
	if page == "" {
		s.show(w, http.StatusOK, setupPage{Title: "The App has been made", Text: "Install " + a.Name + " from its page at GitHub, then adopt its installations."})
		return
	}
	http.Redirect(w, r, page+"?state="+x.state, http.StatusSeeOther)
}

func (s *Server) manifestInstalled(w http.ResponseWriter, r *http.Request) {
	x, ctx := s.flowOf(w, r)
	if x == nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	q := r.URL.Query()
	if x.app == nil {
		s.showError(w, r, problem(http.StatusConflict, "The App has not been made yet.", "Open the link that you were given once more."))
		return
	}
	if q.Get("setup_action") == "request" {
		s.show(w, http.StatusOK, setupPage{
			Title: "An owner has to approve", Text: "You asked for the App to be installed. GitHub has told the owners of the organisation.",
			Fix: "When one of them has approved it, adopt the App's installations (POST /api/v1/github/apps/" + x.app.ID + "/adopt).",
		})
		return
	}
	id, err := strconv.ParseInt(q.Get("installation_id"), 10, 64)
	if err != nil || id <= 0 {
		s.showError(w, r, problem(http.StatusBadRequest, "GitHub did not say which installation it is.", "Adopt the App's installations."))
		return
	}
	if err := s.mayStill(ctx, x.who); err != nil {
		s.showError(w, r, err)
		return
	}
	out, err := s.connect(ctx, *x.app, id)
	switch {
	case err != nil:
		s.showError(w, r, err)
	case len(out.Skipped) > 0:
		s.showError(w, r, problem(http.StatusConflict, fmt.Sprintf("The App is installed on %s, and the fleet cannot serve it: %s.", out.Skipped[0].Account, out.Skipped[0].Why), "Install it on another account."))
	default:
		in := append(out.Created, out.Known...)[0]
		s.show(w, http.StatusOK, setupPage{
			Title: "GitHub is connected", Text: fmt.Sprintf("The fleet serves %s as the installation %s (%s).", in.Account, in.Name, in.ID),
			Fix: "Make a pool for it, if there is none yet. You can close this page.",
		})
	}
}

// connect connects one installation of an App, if GitHub says by the App's key that it is one.
func (s *Server) connect(ctx context.Context, a store.GitHubApp, id int64) (Adoption, error) {
	client, err := s.asApp(a)
	if err != nil {
		return Adoption{}, err
	}
	asking, cancel := context.WithTimeout(ctx, githubPatience)
	defer cancel()
	in, err := client.Installation(asking, id)
	switch {
	case ctx.Err() != nil:
		return Adoption{}, ctx.Err()
	case errors.Is(err, github.ErrNotFound):
		return Adoption{}, problem(http.StatusConflict, fmt.Sprintf("GitHub knows no installation %d of this App.", id), "Install the App once more, or adopt its installations.")
	case err != nil:
		return Adoption{}, githubProblem(err)
	}
	return s.adopt(ctx, a, []github.AppInstallation{in})
}

// origin is scheme and host of an address that was made here.
func origin(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}
