// Applies the light or dark theme of this browser before the page is drawn.

try {
  const theme = localStorage.getItem("theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch { /* storage is disabled: the theme is that of the system */ }
